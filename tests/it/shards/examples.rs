//! The examples under `pipelines/sweep/`: their command lines are taken out and run.

use crate::python;
use crate::sandbox::{Ran, Sandbox, stride_pipe};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stride_pipe::pipeline::Diagnostics;
use stride_pipe::pipeline::tree::{Node, parse};

const SHARDS: usize = 4;

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> String {
    fs::read_to_string(checkout().join("pipelines/sweep").join(name)).unwrap()
}

/// A directory like the checkout, as far as the examples use it.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["pipelines/sweep/sweep.yaml", "data/uci/energy.parquet"] {
        let target = sandbox.path(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(checkout().join(name), target).unwrap();
    }
    sandbox
}

/// A shell in the sandbox that finds the program, with the program `parallel` of the sandbox before others.
fn shell(sandbox: &Sandbox, command: &str, variables: &[(&str, String)]) -> Ran {
    let program = PathBuf::from(stride_pipe().get_program());
    let own = [sandbox.path("bin"), program.parent().unwrap().to_owned()];
    let before = std::env::var_os("PATH").unwrap();
    let path = own.into_iter().chain(std::env::split_paths(&before));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("PATH", std::env::join_paths(path).unwrap()).current_dir(sandbox.path(""));
    shell.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    Ran::from(&shell.output().unwrap()).succeeded()
}

/// The collecting run does nothing but evaluate the four cases.
#[track_caller]
fn collected(sandbox: &Sandbox, ran: &Ran) {
    assert!(ran.stdout.contains("4 task(s) done"), "{}", ran.stdout);
    assert_eq!(sandbox.table_files("metrics").len(), 1);
}

#[test]
fn slurm() {
    let (sandbox, script) = (prepared(), example("slurm.sh"));
    let option = |name: &str| script.lines().find_map(|line| line.strip_prefix(&format!("#SBATCH --{name}="))).unwrap();
    assert_eq!(option("array"), format!("0-{}", SHARDS - 1));
    for index in 0..SHARDS {
        let variables = [
            ("SLURM_ARRAY_TASK_ID", index.to_string()),
            ("SLURM_ARRAY_TASK_COUNT", SHARDS.to_string()),
            ("SLURM_CPUS_PER_TASK", option("cpus-per-task").to_owned()),
        ];
        shell(&sandbox, &script, &variables);
    }
    let wrapped = script.lines().find_map(|line| line.split_once("--wrap '")).unwrap().1;
    collected(&sandbox, &shell(&sandbox, wrapped.trim_end_matches('\''), &[]));
}

/// Stands in for GNU parallel: a job for every line, all at once.
const PARALLEL: &str = "\
#!/bin/sh
while [ \"${1#--}\" != \"$1\" ]; do shift 2; done
command=\"$*\"
pids=
while read -r line; do
  sh -c \"$(printf '%s' \"$command\" | sed \"s|{}|$line|g\")\" > \"job-$line.log\" 2>&1 &
  pids=\"$pids $!\"
done
for pid in $pids; do wait \"$pid\" || exit 1; done
";

#[test]
fn gnu_parallel() {
    let sandbox = prepared();
    fs::create_dir_all(sandbox.path("bin")).unwrap();
    sandbox.write("bin/parallel", PARALLEL);
    python::succeed(Command::new("chmod").arg("+x").arg(sandbox.path("bin/parallel")));
    let ran = shell(&sandbox, &example("parallel.sh"), &[]);
    assert_eq!((0..SHARDS).filter(|index| sandbox.path(format!("job-{index}.log")).exists()).count(), SHARDS);
    collected(&sandbox, &ran);
}

#[test]
fn kubernetes() {
    let sandbox = prepared();
    let job = |name: &str| {
        let mut problems = Diagnostics::default();
        let job = parse(&example(name), &mut problems).unwrap();
        assert!(problems.is_empty());
        assert_eq!(job.find(&["kind"]).and_then(Node::text), Some("Job"));
        let containers = job.find(&["spec", "template", "spec", "containers"]).unwrap();
        let container = &containers.items()[0];
        let command: Vec<&str> = container.find(&["command"]).unwrap().items().iter().filter_map(Node::text).collect();
        assert_eq!(command, ["/bin/sh", "-c"]);
        let shell = container.find(&["args"]).unwrap().items()[0].text().unwrap().to_owned();
        (job, shell)
    };
    let (indexed, command) = job("kubernetes.yml");
    assert_eq!(indexed.find(&["spec", "completionMode"]).and_then(Node::text), Some("Indexed"));
    let completions = indexed.find(&["spec", "completions"]).and_then(Node::scalar_text);
    assert_eq!(completions.as_deref(), Some(SHARDS.to_string().as_str()));
    for index in 0..SHARDS {
        shell(&sandbox, &command, &[("JOB_COMPLETION_INDEX", index.to_string())]);
    }
    collected(&sandbox, &shell(&sandbox, &job("kubernetes-collect.yml").1, &[]));
}

/// Stands in for Airflow, which is larger than all of this: prints the commands in the order in which they would run.
const AIRFLOW: &str = "\
import sys, types
def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(names)
class DAG:
    def __init__(self, dag_id, schedule, start_date, catchup, max_active_runs): pass
    def __enter__(self): return self
    def __exit__(self, *error): pass
class Partial:
    def expand(self, bash_command): return BashOperator('', '', bash_command, 0, 0)
class BashOperator:
    def __init__(self, task_id, cwd, bash_command, retries, retry_delay): self.commands = bash_command
    @staticmethod
    def partial(task_id, cwd, retries, retry_delay): return Partial()
    def __rshift__(self, other): print(chr(10).join(self.commands + [other.commands]))
for name in ['airflow', 'airflow.providers', 'airflow.providers.standard', 'airflow.providers.standard.operators']:
    module(name)
module('airflow.sdk', DAG=DAG)
module('airflow.providers.standard.operators.bash', BashOperator=BashOperator)
exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))
";

#[test]
fn airflow() {
    let sandbox = prepared();
    let file = checkout().join("pipelines/sweep/airflow_dag.py");
    let commands = python::succeed(Command::new("python3").args(["-c", AIRFLOW]).arg(file));
    let commands: Vec<&str> = commands.lines().collect();
    let (collect, shards) = commands.split_last().unwrap();
    assert_eq!(shards.len(), SHARDS);
    for command in shards {
        shell(&sandbox, command, &[]);
    }
    collected(&sandbox, &shell(&sandbox, collect, &[]));
}
