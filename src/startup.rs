//! What a program has to do before anything else.

use crate::gp::linalg::{KERNELS_VARIABLE, better_kernels};

/// Inside another program, others may have changed how many threads `OpenBLAS` has.
pub use crate::gp::linalg::keep_single_threaded;

/// Starts this program anew when `OpenBLAS` did not recognise the processor, with a word to it about which one it is.
///
/// `OpenBLAS` chooses when it is loaded, before `main`, so that there is no later time to tell it. Whoever has set the variable
/// decides. When the program cannot be started anew, it goes on as it is: only slower.
pub fn with_fitting_kernels() {
    #[cfg(unix)]
    if std::env::var_os(KERNELS_VARIABLE).is_none()
        && let Some(name) = better_kernels()
        && let Some(program) = own_file()
    {
        use std::os::unix::process::CommandExt as _;
        let mut words = std::env::args_os();
        let mut again = std::process::Command::new(program);
        if let Some(called) = words.next() {
            again.arg0(called);
        }
        // Returns only when it fails, and then a closed pipe would end the program without a word.
        let _ = again.args(words).env(KERNELS_VARIABLE, name).exec();
        let _ = signal_hook::flag::register(signal_hook::consts::SIGPIPE, std::sync::Arc::default());
    }
}

/// Refuses to begin where so many threads would not get the memory that they reserve: `OpenBLAS` asks for it again and again,
/// for ever, instead of giving up.
///
/// Measured on Linux: half a gigabyte for the program, 160 MiB for each of the first threads, of which most is only reserved.
pub fn check_address_space(threads: usize) -> Result<(), String> {
    #[cfg(unix)]
    if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::As).current {
        let needed = (512 + 160 * threads.min(8) as u64 + 80 * threads.saturating_sub(8) as u64) << 20;
        if limit < needed {
            let (limit, needed) = (crate::text::bytes(limit), crate::text::bytes(needed));
            let (who, advice) = match threads {
                0 => ("the program needs".to_owned(), ""),
                _ => (format!("{threads} thread(s) of work need"), ", or give fewer with `--threads`"),
            };
            let limited = format!("the address space is limited to {limit}, and {who} {needed}");
            return Err(format!("{limited}: raise the limit (`ulimit -v`){advice}"));
        }
    }
    Ok(())
}

/// Bytes of memory that this process may have: those of the machine, or of the group of processes that it is in.
pub fn memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    let machine = {
        let info = rustix::system::sysinfo();
        Some(info.totalram as u64 * u64::from(info.mem_unit))
    };
    #[cfg(not(target_os = "linux"))]
    let machine = None;
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.into_iter().filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    limits.chain(machine).min()
}

/// The file of this program; `None` for one that was handed to the dynamic loader, whose file would be found instead.
#[cfg(unix)]
fn own_file() -> Option<std::path::PathBuf> {
    let program = std::env::current_exe().ok()?;
    let loader = program.file_name()?.to_str().is_some_and(|name| name.starts_with("ld-") || name.starts_with("ld."));
    (!loader).then_some(program)
}
