//! Random streams that are found by name, and the few draws we need, written out.
//!
//! A stream belongs to a purpose (seed, case, fold, particle, …), not to a moment: two computations
//! can run in any order, or not at all, and a third still sees the same numbers.
//!
//! The draws are our own because folds and chains must not change with the update of a library:
//! libraries promise a stable generator, but seldom a stable way to turn it into a permutation.

use std::collections::HashMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The name of a random stream: a seed and a path of words and numbers.
///
/// Copies are independent names; extending one leaves the other as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamKey {
    state: [u8; 32],
}

impl StreamKey {
    /// The root of all streams of a run.
    pub fn new(seed: u64) -> Self {
        Self { state: [0; 32] }.extend(b's', &seed.to_le_bytes())
    }

    /// The stream of this name below `self`.
    #[must_use]
    pub fn with(&self, name: &str) -> Self {
        self.extend(b'n', name.as_bytes())
    }

    /// The stream of this number below `self`, for example a fold or a particle.
    #[must_use]
    pub fn with_index(&self, index: u64) -> Self {
        self.extend(b'i', &index.to_le_bytes())
    }

    /// A generator at the start of this stream.
    pub fn generator(&self) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.state)
    }

    // Kind and length go in front, so that ("ab", "c") and ("a", "bc"), or "1" and 1, are different streams.
    fn extend(&self, kind: u8, part: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.state);
        hash.update([kind]);
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
        Self { state: hash.finalize().into() }
    }
}

/// A uniform integer in `0..n`; 0 when `n` is 0.
///
/// Lemire's multiplication method, with rejection: no modulo bias.
pub fn below<R: Rng + ?Sized>(rng: &mut R, n: usize) -> usize {
    let n = n as u64;
    if n == 0 {
        return 0;
    }
    let threshold = n.wrapping_neg() % n;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(n);
        if (product as u64) >= threshold {
            return (product >> 64) as usize;
        }
    }
}

/// A uniform number in [0, 1) with 53 random bits.
pub fn uniform<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    (rng.next_u64() >> 11) as f64 * (0.5_f64).powi(53)
}

/// `k` different integers of `0..n` in increasing order; all of them when `k ≥ n`.
pub fn sample_without_replacement<R: Rng + ?Sized>(rng: &mut R, n: usize, k: usize) -> Vec<usize> {
    let k = k.min(n);
    // Fisher and Yates, where only what is not in its own place is written down: a few of many rows must not cost all of them.
    let mut moved: HashMap<usize, usize> = HashMap::new();
    let mut drawn: Vec<usize> = Vec::with_capacity(k);
    for i in 0..k {
        let j = i + below(rng, n - i);
        let here = moved.remove(&i).unwrap_or(i);
        drawn.push(if j == i { here } else { moved.insert(j, here).unwrap_or(j) });
    }
    drawn.sort_unstable();
    drawn
}

/// All integers of `0..n` in random order.
pub fn permutation<R: Rng + ?Sized>(rng: &mut R, n: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    for i in 0..n {
        all.swap(i, i + below(rng, n - i));
    }
    all
}

/// A draw of N(0, 1) (Box–Muller).
///
/// Two uniforms give one draw and the second of the pair is dropped: a draw then never depends on how
/// many were taken before, and no state has to be kept beside the generator.
pub fn standard_normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    // 1 - u is in (0, 1], so that the logarithm is finite.
    let radius = (-2.0 * (1.0 - uniform(rng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(rng)).cos()
}
