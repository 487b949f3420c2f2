//! Stands between the program and a store: counts, refuses, holds requests back.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// So many connections are answered with 503.
    refusals: AtomicU64,
    /// Requests whose head has all of these words are held back.
    held: Mutex<Option<Vec<String>>>,
    waiting: AtomicBool,
    released: AtomicBool,
    /// Bytes that the store has sent.
    sent: AtomicU64,
    refused: AtomicU64,
}

impl Proxy {
    pub fn to(store: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, shared) = (listener.local_addr().unwrap().port(), Arc::new(Shared::default()));
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                std::thread::spawn(move || own.serve(connection, store));
            }
        });
        Self { port, shared }
    }

    /// The next requests are told to slow down.
    pub fn refuse(&self, requests: u64) {
        self.shared.refusals.store(requests, Ordering::SeqCst);
    }

    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// Holds back requests whose first lines have these words, until they are released.
    pub fn hold(&self, words: &[&str]) {
        *self.shared.held.lock().unwrap() = Some(words.iter().map(|word| (*word).to_owned()).collect());
    }

    pub fn is_holding(&self) -> bool {
        self.shared.waiting.load(Ordering::SeqCst)
    }

    pub fn release(&self) {
        self.shared.released.store(true, Ordering::SeqCst);
    }

    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// One request per connection, so that each is seen.
    fn serve(&self, mut client: TcpStream, store: u16) -> Option<()> {
        let mut head = Vec::new();
        let mut byte = [0; 1];
        while !head.ends_with(b"\r\n\r\n") {
            if client.read(&mut byte).ok()? == 0 {
                return None;
            }
            head.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.refused.fetch_add(1, Ordering::SeqCst);
            let answer = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            return client.write_all(answer.as_bytes()).ok();
        }
        let held = self.held.lock().unwrap().clone();
        if held.is_some_and(|words| words.iter().all(|word| text.contains(word.as_str()))) {
            self.waiting.store(true, Ordering::SeqCst);
            while !self.released.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let mut upstream = TcpStream::connect(("127.0.0.1", store)).ok()?;
        // Not signed, and so free to be changed.
        let closing = text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        upstream.write_all(closing.as_bytes()).ok()?;
        let (mut from, mut to) = (client.try_clone().ok()?, upstream.try_clone().ok()?);
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = upstream.read(&mut buffer).ok()?;
            if count == 0 {
                break;
            }
            self.sent.fetch_add(count as u64, Ordering::SeqCst);
            client.write_all(&buffer[..count]).ok()?;
        }
        client.shutdown(Shutdown::Both).ok()
    }
}
