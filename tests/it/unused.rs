//! Options that change nothing are named, and those that only some cases use are listed once.

use crate::sandbox::{SMALL, Sandbox};

const QUICK: &str =
    "em: { iterations: 1, particles: 2, exchanges: 1, sampler: { pcn: { steps: 2 } }, final_transitions: 0 }";

fn stage(sandbox: &Sandbox, options: &str) {
    sandbox.write("x.yaml", &SMALL.replace("method: gp", options));
}

#[test]
fn an_option_that_the_method_does_not_use_is_named() {
    let sandbox = Sandbox::new();
    for (options, said) in [
        (
            format!("method: deep_gp, ard: true, {QUICK}"),
            // Lengths of features' own are for deep methods, too.
            vec!["`em.exchanges`"],
        ),
        (
            "method: gp, inducing: { count: 5 }".to_owned(),
            vec!["`inducing` changes nothing with `method: gp`; leave it out"],
        ),
        (format!("method: gp, {QUICK}"), vec!["`em` changes nothing with `method: gp`"]),
        (
            format!("method: stride, inducing: {{ count: 5 }}, deep: {{ u_min: 0.1 }}, {QUICK}"),
            vec!["`deep.u_min` changes nothing with `deep.architecture: composition`"],
        ),
    ] {
        stage(&sandbox, &options);
        let seen = sandbox.run("validate x.yaml").succeeded();
        let ran = sandbox.run("run x.yaml --quiet --to model").succeeded();
        assert_eq!(seen.stdout.matches("warning: x.yaml:10:").count(), said.len(), "{}", seen.stdout);
        for said in said {
            assert!(seen.stdout.contains(said), "{said}: {}", seen.stdout);
            assert_eq!(ran.stderr.matches(said).count(), 1, "{said}: {}", ran.stderr);
        }
    }
    let set = sandbox.run("validate small.yaml --set stages.model.train.inducing.count=5").succeeded();
    let said = "warning: --set stages.model.train.inducing.count=5: `inducing` changes nothing with `method: gp`";
    assert!(set.stdout.contains(said), "{}", set.stdout);
    let plain = sandbox.run("validate small.yaml").succeeded();
    assert!(!plain.stdout.contains("warning") && !plain.stdout.contains("note"), "{}", plain.stdout);
}

#[test]
fn a_matrix_of_methods_lists_what_only_some_use() {
    let sandbox = Sandbox::new();
    stage(&sandbox, "method: '${matrix.method}', ard: true, inducing: { count: 5 }, deep: { u_max: 3 }");
    let text = std::fs::read_to_string(sandbox.path("x.yaml")).unwrap();
    sandbox.write("x.yaml", &text.replace("stages:", "matrix: { method: [gp, sparse_gp] }\nstages:"));
    let seen = sandbox.run("validate x.yaml").succeeded();
    assert_eq!(
        seen.stdout.matches("note: used in some cases only: `inducing` (sparse_gp)\n").count(),
        1,
        "{}",
        seen.stdout
    );
    assert_eq!(seen.stdout.matches("warning: ").count(), 1, "{}", seen.stdout);
    assert!(seen.stdout.contains("`deep` changes nothing with `method: gp, sparse_gp`"), "{}", seen.stdout);
    let ran = sandbox.run("run x.yaml --to model").succeeded();
    assert_eq!(ran.stderr.matches("INFO used in some cases only: `inducing` (sparse_gp)").count(), 1, "{}", ran.stderr);
}

/// Examples that warn would be poor examples.
#[test]
fn the_pipelines_of_the_project_use_all_that_they_write() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![root.join("pipelines")];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 5);
    for file in files {
        let seen = crate::sandbox::stride_pipe().arg("validate").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&seen.stdout);
        assert!(!said.contains("warning: "), "{said}");
    }
}
