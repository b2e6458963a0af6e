//! The embedded broker: its golden file, its publish port and its reader.

mod golden;
mod publishing;
mod stored;
