//! The OpenCode adapter against a server of ours that says what OpenCode's types say. [S] No recording of a real server
//! is at hand for these bodies; `tests/peers/opencode.sh` drives the real program where it can be had.

mod server;
mod calls;
mod failures;
