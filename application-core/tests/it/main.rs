//! The use cases against scripted ports: what is called, in which order, and what is not.

mod append;
mod best_effort;
mod consume;
mod contract;
mod late;
mod relay;
mod relay_window;
mod rotate;
mod rotate_ports;
mod support;
