//! Processes of a job as threads of one: for tests.

use std::sync::{Arc, Barrier, Mutex, PoisonError};

use super::{Comm, Team};

/// What one rank hands to the others.
type Handed<T> = Mutex<Vec<Vec<T>>>;

#[derive(Debug)]
struct Shared {
    numbers: Handed<f64>,
    words: Handed<u64>,
    barrier: Barrier,
}

#[derive(Debug)]
struct ThreadComm {
    rank: usize,
    size: usize,
    shared: Arc<Shared>,
}

impl ThreadComm {
    // What all ranks have put there.
    fn all<T: Clone>(&self, place: &Handed<T>, own: Vec<T>) -> Vec<Vec<T>> {
        place.lock().unwrap_or_else(PoisonError::into_inner)[self.rank] = own;
        self.shared.barrier.wait();
        let all = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.shared.barrier.wait();
        all
    }
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }
    fn broadcast(&self, _: &mut Vec<u8>) {}
    fn gather_words(&self, own: &[u64]) -> Vec<u64> {
        self.all(&self.shared.words, own.to_vec()).concat()
    }
    fn all_to_all(&self, send: &[f64], (sent, received): (&[usize], &[usize])) -> Vec<f64> {
        // What stands before the part of this rank in what another sends: its nodes times the slices before.
        let all = self.all(&self.shared.numbers, send.to_vec());
        let layouts = self.all(&self.shared.words, sent.iter().map(|count| *count as u64).collect());
        let part = |(from, layout): (&Vec<f64>, &Vec<u64>)| {
            let first = layout[..self.rank].iter().sum::<u64>() as usize;
            from[first..first + layout[self.rank] as usize].to_vec()
        };
        let found: Vec<Vec<f64>> = all.iter().zip(&layouts).map(part).collect();
        assert!(found.iter().zip(received).all(|(part, count)| part.len() == *count), "what is sent is expected");
        found.concat()
    }
    fn all_gather(&self, own: &[f64], counts: &[usize]) -> Vec<f64> {
        let all = self.all(&self.shared.numbers, own.to_vec());
        assert!(all.iter().zip(counts).all(|(part, count)| part.len() == *count), "what is sent is expected");
        all.concat()
    }
}

/// What `work` gives on each of so many ranks, in one team.
pub(crate) fn on_ranks<T: Send>(size: usize, work: impl Fn(&Arc<Team>) -> T + Sync) -> Vec<T> {
    let (numbers, words) = (Mutex::new(vec![Vec::new(); size]), Mutex::new(vec![Vec::new(); size]));
    let shared = Arc::new(Shared { numbers, words, barrier: Barrier::new(size) });
    let comm = |rank| Arc::new(ThreadComm { rank, size, shared: Arc::clone(&shared) }) as Arc<dyn Comm>;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (team, work) = (Team::new(comm(rank)), &work);
                scope.spawn(move || work(&team))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| unreachable!("a rank"))).collect()
    })
}
