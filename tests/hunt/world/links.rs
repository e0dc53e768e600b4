//! Connections between clients and server, and their faults.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

use tokio::time::Instant;

use super::{Conn, Happening, World, serving};
use crate::judge::Host;
use crate::net::{Dial, Wire};
use crate::plan::LinkFault;
use crate::sim::server::Reply;

impl World {
    /// Draws how long something takes on the way.
    pub(super) fn delay(&mut self, host: Host) -> Duration {
        let latency = self.hosts[host].latency;
        latency.mul_f64(1.0 + self.settings.jitter * self.rng.f64())
    }

    pub(super) fn host_of(&self, name: &str) -> Option<Host> {
        let number = name.strip_prefix('c')?.parse().ok()?;
        (number < self.hosts.len()).then_some(number)
    }

    pub(super) fn dialled(&mut self, dial: Dial) {
        let now = Instant::now();
        let Some(host) = self.host_of(&dial.host) else {
            panic!("{} is nobody", dial.host);
        };
        self.judge().dials(host);
        let there = self.delay(host) + self.delay(host);
        let link = &self.hosts[host];
        let at = (now + there).max(link.up_until).max(link.down_until);
        let node = self.nodes.at_port(dial.port);
        let refused = link.dead || link.refused_until > now;
        let node = node.filter(|node| !refused && self.nodes.node(*node).down_until <= now);
        let Some(node) = node else {
            let refused = Err(ErrorKind::ConnectionRefused.into());
            self.happens(at, Happening::Connected(dial.answer, refused));
            return;
        };
        let number = self.wires.len();
        let connection = self.nodes.node(node).server.connect();
        let port = dial.port;
        self.judge()
            .note(format_args!("c{host}/{number} to {port} is being made"));
        let wire = Wire::new(number);
        self.by_connection.insert(connection, number);
        self.wires.push(Conn {
            wire: wire.clone(),
            host,
            node,
            connection: Some(connection),
            up: VecDeque::new(),
            last_up: at,
            down: VecDeque::new(),
            last_down: at,
            mute_up: false,
            mute_down: false,
            received: Vec::new(),
            listens: false,
            ending: false,
            waits: 0,
        });
        self.happens(at, Happening::Connected(dial.answer, Ok(wire)));
    }

    /// A client has written to a connection, or closed it.
    pub(super) fn touched(&mut self, number: usize) {
        let now = Instant::now();
        let (sent, closed) = self.wires[number]
            .wire
            .change(|state| (std::mem::take(&mut state.sent), state.closed));
        let host = self.wires[number].host;
        let mut late = None;
        for bytes in sent {
            // Shorter messages belong to the introduction of a connection.
            if bytes.len() > 150 {
                late = late.or(self.hosts[host].late_copy.take());
            }
            let at = (now + self.delay(host)).max(self.wires[number].last_up);
            self.wires[number].last_up = at;
            self.wires[number].up.push_back(bytes);
            self.happens(at, Happening::Arrives(number));
        }
        if let Some(later) = late {
            self.judge().note(format_args!(
                "c{host} is reset, and its request arrives later"
            ));
            self.reset(number, Some(later));
        }
        if closed && !self.wires[number].ending {
            self.wires[number].ending = true;
            // If nothing gets through, the server notices the end by itself, some time later.
            let mute = self.wires[number].mute_up || self.wires[number].mute_down;
            let later = if mute {
                Duration::from_secs(self.rng.u64(10..40))
            } else {
                self.delay(host)
            };
            let at = (now + later).max(self.wires[number].last_up);
            self.happens(at, Happening::Closed(number));
        }
    }

    pub(super) fn close_server_side(&mut self, number: usize) {
        if let Some(connection) = self.wires[number].connection.take() {
            let node = self.wires[number].node;
            self.nodes.disconnect(node, connection);
            self.by_connection.remove(&connection);
            let host = self.wires[number].host;
            self.judge()
                .note(format_args!("c{host}/{number} is closed"));
        }
    }

    pub(super) fn arrives(&mut self, number: usize, now: Instant) {
        let conn = &mut self.wires[number];
        let host = conn.host;
        if conn.mute_up || conn.mute_down {
            // A client can't notice the silence before it has sent something.
            self.unwell(host, Duration::ZERO);
        }
        let conn = &mut self.wires[number];
        if conn.mute_up {
            return;
        }
        let until = self.hosts[host].up_until;
        if until > now {
            self.happens(until, Happening::Arrives(number));
            return;
        }
        let bytes = conn.up.pop_front().expect("one event for each");
        if conn.connection.is_none() {
            return;
        }
        // Shorter messages belong to the introduction of a connection.
        if bytes.len() > 200
            && let Some(away) = self.hosts[host].cut_request.take()
        {
            self.judge().note(format_args!(
                "c{host} is cut off in a request, for {away:?}"
            ));
            self.reset(number, None);
            self.is_away(host, away, now);
            return;
        }
        self.wires[number].received.extend(bytes);
        self.serve(number);
    }

    /// Carries out the requests that have arrived, until one has to wait.
    pub(super) fn serve(&mut self, number: usize) {
        let Some(connection) = self.wires[number].connection else {
            return;
        };
        let received = std::mem::take(&mut self.wires[number].received);
        let mut rest = &received[..];
        while !self.is_waiting(number)
            && let Some((words, length)) = serving::parse(rest)
        {
            rest = &rest[length..];
            self.execute(number, connection, &words);
            let carries_on = self.wires[number].connection.is_some();
            if !carries_on {
                return;
            }
        }
        self.wires[number].received = rest.to_vec();
    }

    /// Sends bytes to the client, or the end of the connection (`None`).
    pub(super) fn answer(&mut self, number: usize, bytes: Option<Vec<u8>>) {
        let host = self.wires[number].host;
        let at = (Instant::now() + self.delay(host)).max(self.wires[number].last_down);
        self.wires[number].last_down = at;
        self.wires[number].down.push_back(bytes);
        self.happens(at, Happening::Answered(number));
    }

    pub(super) fn reply(&mut self, number: usize, reply: &Reply) {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        self.answer(number, Some(bytes));
    }

    /// Breaks a connection. Bytes on their way to the server arrive after this time, or not at all.
    pub(super) fn reset(&mut self, number: usize, arrives: Option<Duration>) {
        self.touched(number);
        let now = Instant::now();
        self.wires[number].wire.change(|state| {
            state.broken = true;
            state.inbox.clear();
        });
        match arrives {
            None => self.close_server_side(number),
            Some(later) => {
                let late: Vec<_> = self
                    .queue
                    .iter()
                    .filter(|(_, what)| matches!(what, Happening::Arrives(of) if *of == number))
                    .map(|(key, _)| *key)
                    .collect();
                for key in late {
                    let what = self.queue.remove(&key).expect("it was there");
                    self.happens(key.0 + later, what);
                }
                if !self.wires[number].ending {
                    self.wires[number].ending = true;
                    self.happens(
                        now + later + Duration::from_secs(1),
                        Happening::Closed(number),
                    );
                }
            }
        }
    }

    pub(super) fn open(&self, host: Option<Host>) -> Vec<usize> {
        let of = |conn: &Conn| host.is_none_or(|host| conn.host == host);
        (0..self.wires.len())
            .filter(|number| self.wires[*number].connection.is_some() && of(&self.wires[*number]))
            .collect()
    }

    pub(super) fn open_at(&self, node: usize) -> Vec<usize> {
        let mut open = self.open(None);
        open.retain(|number| self.wires[*number].node == node);
        open
    }

    pub(super) fn die(&mut self, host: Host) {
        self.hosts[host].dead = true;
        for number in self.open(Some(host)) {
            let arrives = self
                .rng
                .bool()
                .then(|| Duration::from_millis(self.rng.u64(0..3000)));
            self.reset(number, arrives);
        }
    }

    /// Resets all connections of a client, and refuses new ones for this time.
    pub(super) fn is_away(&mut self, host: Host, time: Duration, now: Instant) {
        if time.is_zero() {
            return;
        }
        self.unwell(host, time);
        self.judge().cuts_off(host, now + time);
        let link = &mut self.hosts[host];
        link.refused_until = link.refused_until.max(now + time);
        for number in self.open(Some(host)) {
            self.reset(number, None);
        }
    }

    pub(super) fn link_fault(&mut self, host: Host, fault: LinkFault, now: Instant) {
        match fault {
            LinkFault::Reset(arrives) => {
                for number in self.open(Some(host)) {
                    self.reset(number, arrives);
                }
            }
            LinkFault::LateCopy(later) => self.hosts[host].late_copy = Some(later),
            LinkFault::LoseAnswer(away) => self.hosts[host].lose_answer = Some(away),
            LinkFault::CutRequest(away) => self.hosts[host].cut_request = Some(away),
            LinkFault::Silence { up, down } => {
                for number in self.open(Some(host)) {
                    self.wires[number].mute_up |= up;
                    self.wires[number].mute_down |= down;
                }
            }
            LinkFault::Stall {
                up,
                down,
                for_so_long,
            } => {
                self.unwell(host, for_so_long);
                let link = &mut self.hosts[host];
                if up {
                    link.up_until = link.up_until.max(now + for_so_long);
                }
                if down {
                    link.down_until = link.down_until.max(now + for_so_long);
                }
            }
            LinkFault::Refuse(time) => self.is_away(host, time, now),
            LinkFault::Deaf => {
                for number in self.open(Some(host)) {
                    if self.wires[number].listens {
                        self.reset(number, None);
                    }
                }
            }
            LinkFault::Unheard => {
                for number in self.open(Some(host)) {
                    let wire = &mut self.wires[number];
                    wire.mute_down |= wire.listens;
                }
            }
        }
    }
}
