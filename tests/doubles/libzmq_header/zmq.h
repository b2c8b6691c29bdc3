/* What examples/clients/client.c needs of libzmq's header, for machines that have the library without it. */
#include <stddef.h>
#define ZMQ_DEALER 5
#define ZMQ_LINGER 17
#define ZMQ_SNDMORE 2
#define ZMQ_POLLIN 1
typedef struct zmq_msg_t { _Alignas(void *) unsigned char _[64]; } zmq_msg_t;
typedef struct zmq_pollitem_t { void *socket; int fd; short events, revents; } zmq_pollitem_t;
void *zmq_ctx_new(void);
void *zmq_socket(void *context, int type);
int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int zmq_connect(void *socket, const char *address);
int zmq_send(void *socket, const void *bytes, size_t size, int flags);
int zmq_poll(zmq_pollitem_t *items, int n_items, long timeout_ms);
int zmq_msg_init(zmq_msg_t *message);
int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);
void *zmq_msg_data(zmq_msg_t *message);
size_t zmq_msg_size(const zmq_msg_t *message);
int zmq_errno(void);
const char *zmq_strerror(int number);
