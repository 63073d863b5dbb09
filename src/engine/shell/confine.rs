//! The second layer: what the stage takes from itself, and so from the command, inside bubblewrap's namespaces. A hole in one
//! layer leaves the other.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod system_calls;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::confine;
#[cfg(target_os = "linux")]
pub use linux::confine;
