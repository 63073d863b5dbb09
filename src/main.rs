//! The binary: passes the arguments to [`attache::cli`] and exits with its code.

use std::process::ExitCode;

/// Minimum worker threads: one may hold a long blocking read while another still serves sockets.
const WORKERS_MIN: usize = 2;

fn main() -> ExitCode {
    attache::cli::protect();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(exit) = attache::cli::worker(&arguments) {
        return exit;
    }
    let workers =
        std::thread::available_parallelism().map_or(WORKERS_MIN, |n| n.get().max(WORKERS_MIN));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exit = runtime.block_on(attache::cli::run(std::env::args_os()));
    // A thread that still waits for a key press must not keep the process alive.
    runtime.shutdown_background();
    exit.into()
}
