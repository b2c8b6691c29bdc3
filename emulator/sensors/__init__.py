"""What LiDAR, camera, RF and GPS see of a scene."""
