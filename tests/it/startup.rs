//! The program begins with `OpenBLAS` running the loops that belong to the processor.

use crate::sandbox::{Ran, stride_pipe};
use std::process::Command;
use stride_pipe::gp::linalg::KERNELS_VARIABLE;

/// What `OpenBLAS` says it runs, once for every time it is loaded; nothing where it has no choice.
fn loaded(mut command: Command, setting: Option<&str>) -> Vec<String> {
    command.env("OPENBLAS_VERBOSE", "2").env_remove(KERNELS_VARIABLE).arg("schema");
    if let Some(name) = setting {
        command.env(KERNELS_VARIABLE, name);
    }
    let ran = Ran::from(&command.output().unwrap()).succeeded();
    assert!(ran.stdout.contains("\"$schema\""), "{}", ran.stdout);
    ran.stderr.lines().filter_map(|line| line.strip_prefix("Core: ")).map(str::to_owned).collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn no_processor_with_wide_registers_gets_the_loops_of_old_ones() {
    let names = loaded(stride_pipe(), None);
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        assert_ne!(names.last().map(String::as_str), Some("Prescott"));
    }
    assert!(names.len() < 2 || names[0] == "Prescott", "a second start without need: {names:?}");
}

#[test]
fn whoever_sets_the_variable_decides() {
    let names = loaded(stride_pipe(), Some("Prescott"));
    assert!(names.is_empty() || names == ["Prescott"], "{names:?}");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_program_handed_to_the_loader_stays_as_it_is() {
    let loader = std::path::Path::new("/lib64/ld-linux-x86-64.so.2");
    if loader.exists() {
        let mut command = Command::new(loader);
        command.arg(stride_pipe().get_program());
        assert!(loaded(command, None).len() < 2);
    }
}
