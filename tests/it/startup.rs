//! The program begins with OpenBLAS running the loops that belong to the processor.

use crate::sandbox::{Ran, stride_pipe};
use stride_pipe::gp::linalg::{KERNELS_VARIABLE, better_kernels, kernels};

/// What OpenBLAS says it runs, once for every time it is loaded; nothing where it has no choice.
fn loaded(setting: Option<&str>) -> (Ran, Vec<String>) {
    let mut command = stride_pipe();
    command.env("OPENBLAS_VERBOSE", "2").env_remove(KERNELS_VARIABLE).args(["schema"]);
    if let Some(name) = setting {
        command.env(KERNELS_VARIABLE, name);
    }
    let ran = Ran::from(&command.output().unwrap());
    let names = ran.stderr.lines().filter_map(|line| line.strip_prefix("Core: ")).map(str::to_owned).collect();
    (ran, names)
}

#[test]
fn an_unknown_processor_gets_its_loops_by_a_second_start() {
    let (ran, names) = loaded(None);
    assert!(ran.succeeded().stdout.contains("\"$schema\""));
    // This test's own process was started with the library's choice, unless the environment made one.
    if std::env::var_os(KERNELS_VARIABLE).is_none() && !names.is_empty() {
        let expected: Vec<String> = [kernels()].into_iter().chain(better_kernels().map(str::to_owned)).collect();
        assert_eq!(names, expected);
        assert!(names.len() == 1 || names[0] == "Prescott", "{names:?}");
    }
}

#[test]
fn whoever_sets_the_variable_decides() {
    let (ran, names) = loaded(Some("Prescott"));
    ran.succeeded();
    assert!(names.is_empty() || names == ["Prescott"], "{names:?}");
}
