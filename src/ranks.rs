//! The processes of a job: who is there, and whether they would compute the same bits.

pub use crate::gp::team::{Comm, world};
#[cfg(feature = "mpi")]
pub use crate::gp::team::{MpiJob, start};

use crate::gp::linalg::kernels;
use sha2::{Digest as _, Sha256};

/// What launchers say of the number of processes that they have started together.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_SIZE"];

/// Some launchers start several processes that know nothing of each other, and each would do everything: what is wrong then.
pub fn started_apart() -> Result<(), String> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let said = LAUNCHERS.iter().find_map(|name| number(name).filter(|count| *count > 1).map(|count| (name, count)));
    let Some((name, count)) = said else { return Ok(()) };
    Err(format!(
        "{name} says that there are {count} processes, and MPI sees one: start them with the launcher of the MPI that the program \
         is linked with"
    ))
}

/// Refuses processes that would compute other bits.
pub fn check_same_program(comm: &dyn Comm) -> Result<(), String> {
    let own = format!("{} {} {} {}", crate::VERSION, crate::COMMIT, kernels(), instructions());
    let digest = Sha256::digest(own.as_bytes());
    let all = comm.gather_words(&[u64::from_le_bytes(std::array::from_fn(|i| digest[i]))]);
    let Some(other) = all.iter().position(|word| *word != all[0]) else { return Ok(()) };
    Err(format!(
        "rank {other} has another version of the program, other loops of OpenBLAS, or a processor with other instructions than rank 0, \
         and would compute other bits: use one program and machines of one kind, or set OPENBLAS_CORETYPE for all of them"
    ))
}

/// What our own loops are compiled for on this processor.
fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if !std::arch::is_x86_feature_detected!("fma") {
            return "x86";
        }
        if std::arch::is_x86_feature_detected!("avx512f") { "avx512" } else { "avx2" }
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH
}
