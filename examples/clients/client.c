/* Sensors of one stream at `sheafedge serve`, in C: needs libzmq; the little msgpack that it takes is below.
 *     cc -std=c11 -O2 -o client client.c -lzmq && ./client [ADDRESS] [INSTANTS]
 * Sends a frame of every sensor of the model per instant, at its rate, and prints what comes back. All numbers of a
 * frame are the number of its instant modulo 10. For little-endian machines. docs/serving.md has the protocol. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>
enum { PATIENCE_S = 5, MOST_SENSORS = 8, MOST_AXES = 8, MOST_NUMBERS = 1 << 20 };
typedef struct { char name[64]; uint32_t shape[MOST_AXES], n_axes; size_t n; double rate_hz; } Sensor;
typedef struct { char kind; uint64_t count; double number; const uint8_t *text; } Item;
static char text[1 << 22];                               /* of a manifest */
static float values[MOST_NUMBERS];                       /* of a frame; here all sensors see the same */
static struct { uint8_t bytes[8192]; size_t n; } header; /* room for the readings of MOST_SENSORS */

static void fail(const char *sentence) { fprintf(stderr, "%s\n", sentence), exit(1); }
/* msgpack has short and long forms; who writes may always take a long one. */
static void put(uint8_t code, uint64_t number, int n_bytes) {
    header.bytes[header.n++] = code;
    while (n_bytes-- > 0) header.bytes[header.n++] = (uint8_t)(number >> (8 * n_bytes));
}
static void put_text(const char *word) {
    put(0xdb, strlen(word), 4), header.n += strlen(strcpy((char *)header.bytes + header.n, word));
}
static void put_count(const char *key, uint64_t number) { put_text(key), put(0xcf, number, 8); }
static void begin(const char *type, uint32_t checksum, uint32_t n_fields) {
    header.n = 0, put(0xdf, n_fields + 3, 4);
    put_count("version", 1), put_text("type"), put_text(type), put_count("checksum", checksum);
}
/* Kinds: t text, i whole number, f float, a list, m map, x nil or bool. Returns what follows the item, after a list or
 * map its first one; NULL: the bytes end too early, or it is nothing that a server sends. */
static const uint8_t *read_item(const uint8_t *at, const uint8_t *end, Item *found) {
    if (at == NULL || at >= end) return NULL;
    uint8_t code = *at++;
    *found = (Item){.kind = code < 0x80 || code >= 0xe0 ? 'i' : code < 0x90 ? 'm' : code < 0xa0 ? 'a' : 't'};
    found->count = found->kind == 'i' ? code : code & (found->kind == 't' ? 31u : 15u);
    if (code >= 0xc0 && code < 0xe0) { /* the number, or the size, is in the bytes behind the code */
        found->kind = "x?xx???????fiiiiiiii?????tttaamm"[code - 0xc0];
        int n = code < 0xc4 ? 0 : code < 0xd9 ? 1 << (code & 3) : code < 0xdc ? 1 << (code - 0xd9) : 2 << (code & 1);
        if (found->kind == '?' || end - at < n) return NULL;
        for (found->count = 0; n > 0; n--) found->count = found->count << 8 | *at++;
        if (found->kind == 'f') memcpy(&found->number, &found->count, sizeof found->number);
    }
    found->text = at;
    return found->kind != 't' ? at : found->count > (uint64_t)(end - at) ? NULL : at + found->count;
}
static int is(Item item, const char *word) {
    return item.kind == 't' && item.count == strlen(word) && memcmp(item.text, word, item.count) == 0;
}
static Item field(zmq_msg_t *packet, const char *key) { /* of a header; an empty text where it is not there */
    const uint8_t *at = zmq_msg_data(packet), *end = at + zmq_msg_size(packet);
    Item one, found;
    uint64_t n_left = (at = read_item(at, end, &one)) != NULL && one.kind == 'm' ? one.count : 0;
    while (n_left-- > 0 && (at = read_item(at, end, &one)) != NULL) {
        if (is(one, key) && read_item(at, end, &found) != NULL) return found;
        for (uint64_t n = 1; n > 0 && (at = read_item(at, end, &one)) != NULL; n--) /* past the value and all in it */
            n += one.kind == 'm' ? 2 * one.count : one.kind == 'a' ? one.count : 0;
    }
    return (Item){.kind = 't', .text = (const uint8_t *)""};
}
/* Inputs in the text of a manifest, which is always laid out alike, so that no JSON library is needed. */
static const char *past(const char *at, const char *key) {
    if ((at = strstr(at, key)) == NULL) fail("this is no manifest");
    return at + strlen(key);
}
static int read_sensors(Item manifest, Sensor *sensors) {
    int n = 0;
    snprintf(text, sizeof text, "%.*s", (int)manifest.count, (const char *)manifest.text);
    for (const char *at = past(text, "\"inputs\": ["); n < MOST_SENSORS && strstr(at, "\"modality\": \"") != NULL; n++) {
        Sensor *one = &sensors[n];
        sscanf(past(at, "\"modality\": \""), "%63[^\"]", one->name);
        at = past(at, "\"frame_shape\": ");
        for (one->n = 1; *at != ']' && one->n_axes < MOST_AXES; at += 1 + strcspn(at + 1, ",]"))
            one->n *= one->shape[one->n_axes++] = (uint32_t)strtoul(at + 1, NULL, 10);
        if (one->n > MOST_NUMBERS) fail("a frame has too many numbers");
        one->rate_hz = strtod(past(at, "\"rate_hz\": "), NULL);
    }
    return n;
}
static uint32_t crc32(uint32_t sum, const uint8_t *byte, size_t n) {
    for (sum = ~sum; n-- > 0; byte++)
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ ((sum ^ *byte >> bit) & 1 ? 0xedb88320u : 0);
    return ~sum;
}
static void send_frames(void *socket, const Sensor *sensors, int n, uint64_t boot, uint32_t index, double time_s) {
    uint64_t bits, checksum = 0;
    for (size_t k = 0; k < MOST_NUMBERS; k++) values[k] = (float)(index % 10);
    for (int i = 0; i < n; i++) checksum = crc32((uint32_t)checksum, (uint8_t *)values, 4 * sensors[i].n);
    begin("frames", (uint32_t)checksum, 6);
    put_text("stream"), put_text("sample-c"), put_count("index", index), put_count("boot", boot);
    memcpy(&bits, &time_s, sizeof bits), put_text("time_s"), put(0xcb, bits, 8);
    put_text("ask"), put(0xc3, 0, 0), put_text("readings"), put(0xdd, (uint64_t)n, 4);
    for (int i = 0; i < n; i++) {
        put(0xdf, 3, 4), put_text("modality"), put_text(sensors[i].name), put_text("dtype"), put_text("<f4");
        put_text("shape"), put(0xdd, sensors[i].n_axes, 4);
        for (uint32_t axis = 0; axis < sensors[i].n_axes; axis++) put(0xcf, sensors[i].shape[axis], 8);
    }
    zmq_send(socket, header.bytes, header.n, ZMQ_SNDMORE);
    for (int i = 0; i < n; i++) zmq_send(socket, values, 4 * sensors[i].n, i + 1 < n ? ZMQ_SNDMORE : 0);
}
static int receive(void *socket, zmq_msg_t *packet, double timeout_s) {
    zmq_pollitem_t one = {socket, 0, ZMQ_POLLIN, 0};
    return zmq_poll(&one, 1, timeout_s > 0 ? (long)(1000 * timeout_s) : 0) > 0 && zmq_msg_recv(packet, socket, 0) >= 0;
}
static void tell_all(zmq_msg_t *packet, const char *key) { /* numbers of a list, or of a map of lists by name */
    Item one = field(packet, key);
    const uint8_t *at = one.text, *end = (uint8_t *)zmq_msg_data(packet) + zmq_msg_size(packet);
    for (uint64_t n = one.kind == 'm' ? 2 * one.count : one.count; n > 0 && (at = read_item(at, end, &one)); n--) {
        if (one.kind == 't') printf("\n    %-11.*s", (int)one.count, (const char *)one.text);
        if (one.kind == 'f') printf("%6.3f", one.number);
        if (one.kind == 'a') n += one.count;
    }
}
static void tell(zmq_msg_t *packet) { /* answer, dropped and refused settle a question, bye ends all */
    static const char *const TEXTS[] = {"type", "label", "reason", "code", "sentence"};
    Item type = field(packet, "type");
    if (!is(type, "bye")) printf("%llu ", (unsigned long long)field(packet, "index").count);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        Item found = field(packet, TEXTS[i]);
        if (found.count > 0) printf("%.*s ", (int)found.count, (const char *)found.text);
    }
    if (is(type, "answer")) printf("%.3f", field(packet, "probability").number);
    if (field(packet, "forecast").kind == 'm') /* of outage, at each time ahead */
        printf("\n    %-11s", "ahead_s"), tell_all(packet, "ahead_s"), tell_all(packet, "forecast");
    if (puts(""), is(type, "bye")) exit(0);
}
static double now_s(void) {
    struct timespec now;
    return timespec_get(&now, TIME_UTC), (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
int main(int argc, char **argv) {
    int n_instants = argc > 2 ? atoi(argv[2]) : 40, n_waiting = 0;
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    if (zmq_connect(socket, argc > 1 ? argv[1] : "tcp://127.0.0.1:5570") != 0) fail(zmq_strerror(zmq_errno()));
    begin("describe", 0, 0), zmq_send(socket, header.bytes, header.n, 0);
    zmq_msg_t packet;
    if (zmq_msg_init(&packet), !receive(socket, &packet, PATIENCE_S)) fail("no answer within 5 s; is the server there?");
    Sensor sensors[MOST_SENSORS] = {0};
    int n = read_sensors(field(&packet, "manifest"), sensors);
    double begun_s = now_s(), period_s = 1 / sensors[0].rate_hz; /* begun_s is our boot, too */
    for (int index = 0; index < n_instants; index++) { /* at their pace, whether answers come or not */
        send_frames(socket, sensors, n, (uint64_t)(1e3 * begun_s), (uint32_t)index, index * period_s), n_waiting++;
        while (receive(socket, &packet, begun_s + (index + 1) * period_s - now_s())) tell(&packet), n_waiting--;
    }
    for (; n_waiting > 0 && receive(socket, &packet, PATIENCE_S); n_waiting--) tell(&packet);
    return n_waiting > 0 ? fail("questions are without a reply"), 1 : 0;
}
