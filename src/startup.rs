//! What a program has to do before anything else.

use crate::gp::linalg::{KERNELS_VARIABLE, better_kernels};

/// Starts this program anew when OpenBLAS did not recognise the processor, with a word to it about which one it is.
///
/// OpenBLAS chooses when it is loaded, before `main`, so that there is no later time to tell it. Whoever has set the variable
/// decides. When the program cannot be started anew, it goes on as it is: only slower.
pub fn with_fitting_kernels() {
    #[cfg(unix)]
    if std::env::var_os(KERNELS_VARIABLE).is_none()
        && let Some(name) = better_kernels()
        && let Ok(program) = std::env::current_exe()
    {
        use std::os::unix::process::CommandExt as _;
        let mut words = std::env::args_os();
        let mut again = std::process::Command::new(program);
        if let Some(called) = words.next() {
            again.arg0(called);
        }
        // Returns only when it fails.
        let _ = again.args(words).env(KERNELS_VARIABLE, name).exec();
    }
}
