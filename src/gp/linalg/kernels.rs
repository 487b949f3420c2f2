//! Which of its inner loops OpenBLAS has chosen for this processor, and which it should have.

use std::ffi::CStr;
use std::os::raw::c_char;

// Linked for its symbols only.
use openblas_src as _;

/// The environment variable by which OpenBLAS takes another choice, read when it is loaded.
pub const KERNELS_VARIABLE: &str = "OPENBLAS_CORETYPE";

#[expect(unsafe_code, reason = "not in any bindings crate")]
unsafe extern "C" {
    fn openblas_get_corename() -> *const c_char;
    fn openblas_get_config() -> *const c_char;
}

/// What OpenBLAS calls the processor whose inner loops it runs.
pub fn kernels() -> String {
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: takes nothing, and returns a constant of the library that ends with a zero, or null.
    let name = unsafe {
        let name = openblas_get_corename();
        if name.is_null() { c"" } else { CStr::from_ptr(name) }
    };
    name.to_string_lossy().into_owned()
}

/// The version of OpenBLAS, as it says itself: `0.3.28`.
pub fn blas_version() -> String {
    #[expect(unsafe_code, reason = "foreign function")]
    // SAFETY: as above; the text is one that the library keeps.
    let config = unsafe {
        let config = openblas_get_config();
        if config.is_null() { c"" } else { CStr::from_ptr(config) }
    };
    // `OpenBLAS 0.3.28 NO_AFFINITY …`
    config.to_string_lossy().split_whitespace().nth(1).unwrap_or_default().to_owned()
}

/// The name of better inner loops than the ones that run, if this processor has the instructions for them.
///
/// A processor that is newer than the library is unknown to it and gets the loops that run everywhere, of 2004.
pub fn better_kernels() -> Option<&'static str> {
    if kernels() == "Prescott" { best_kernels() } else { None }
}

#[cfg(target_arch = "x86_64")]
fn best_kernels() -> Option<&'static str> {
    use std::arch::is_x86_feature_detected as has;
    // Each name stands for all of its instructions.
    if has!("avx512f") && has!("avx512dq") && has!("avx512cd") && has!("avx512bw") && has!("avx512vl") {
        Some("SkylakeX")
    } else if has!("avx2") && has!("fma") {
        Some("Haswell")
    } else {
        None
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_kernels() -> Option<&'static str> {
    None
}
