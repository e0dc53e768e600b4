//! A plain connection to a real server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::sim::server::Reply;

/// Longer than a running server takes for any reply.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Wire(BufReader<TcpStream>);

impl Wire {
    pub fn open(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Wire(BufReader::new(stream))
    }

    pub fn send<T: AsRef<[u8]>>(&mut self, words: &[T]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0
            .get_mut()
            .write_all(&bytes)
            .expect("the server takes commands");
    }

    pub fn receive(&mut self) -> Reply {
        let mut line = Vec::new();
        self.0
            .read_until(b'\n', &mut line)
            .expect("the server answers");
        let line = line.strip_suffix(b"\r\n").expect("the server has not gone");
        let (kind, text) = line.split_first().expect("a line is not empty");
        let number = || -> i64 {
            let text = std::str::from_utf8(text).expect("a number");
            text.parse().expect("a number")
        };
        match kind {
            b'+' => Reply::Status(text.to_vec()),
            b'-' => Reply::Error(text.to_vec()),
            b':' => Reply::Int(number()),
            b'$' => match usize::try_from(number()) {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes).expect("the server answers");
                    bytes.truncate(length);
                    Reply::Bulk(bytes)
                }
                Err(_) => Reply::Nil,
            },
            b'*' => match usize::try_from(number()) {
                Ok(length) => Reply::Array((0..length).map(|_| self.receive()).collect()),
                Err(_) => Reply::Nil,
            },
            _ => panic!("no kind of answer: {line:?}"),
        }
    }

    /// The messages that were pushed so far: all replies before the answer to another command.
    pub fn messages(&mut self) -> Vec<Reply> {
        self.send(&["PING"]);
        let mut messages = Vec::new();
        loop {
            match self.receive() {
                reply if is_pushed(&reply) => messages.push(reply),
                _ => return messages,
            }
        }
    }

    pub fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Reply {
        self.send(words);
        self.receive()
    }
}

fn is_pushed(reply: &Reply) -> bool {
    let Reply::Array(items) = reply else {
        return false;
    };
    matches!(items.first(), Some(Reply::Bulk(word)) if word != b"pong")
}
