//! Values of other programs in the keys of single primitives, and arbitrary answers of a server: no call panics, and every call
//! ends.

use std::time::Duration;

use crate::hostile::{assert_no_panic, count_panics};
use crate::layouts::Shape;
use crate::support::clients::{LIMIT, builder, connect};
use crate::support::server::RedisServer;
use crate::support::waiters::until_subscribers;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Lock};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Returns an answer of any kind. An error must be of a known kind, and name its object.
fn clear<T>(what: &str, answer: Result<T, Error>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(
            error @ (Error::Server { .. }
            | Error::NotANumber { .. }
            | Error::WrongType { .. }
            | Error::OutcomeUnknown { .. }),
        ) => {
            assert!(error.to_string().contains(what), "{error}");
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Writes a list into a key that holds another type.
async fn write_a_list(control: &mut MultiplexedConnection, key: &str) {
    let _: () = control.del(key).await.unwrap();
    let _: () = control.lpush(key, "nobody's").await.unwrap();
}

/// Makes the calls that can meet the records of a recipe's semaphore.
async fn use_recipe(semaphore: &crate::layouts::Handle) {
    let name = semaphore.name();
    let short = Duration::from_millis(10);
    let all = async {
        let (one, two) = tokio::join!(semaphore.try_permit(), semaphore.try_permit());
        clear(name, semaphore.holders().await);
        let three = clear(name, semaphore.permit_for(short).await);
        drop((clear(name, one), clear(name, two), three));
        clear(name, semaphore.refresh("nobody").await);
        clear(name, semaphore.release("nobody").await);
    };
    timeout(LIMIT, all).await.expect("every call ends");
}

#[tokio::test]
async fn lines_of_recipes_that_nobody_of_ours_has_written() {
    count_panics();
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let texts = [
        "",
        "x",
        "1 2",
        "nan nan nan nan nan nan",
        "0 0 0 0 0 0",
        "1 2 0 1 0 1",
        "1 99999999999999999999999 99999999999999999999999 0 0 1",
        "99999999999999999999999 2 1000 1 99999999999999999999999 1",
    ];
    let arrivals = [0.0, -9e15, f64::NEG_INFINITY, f64::INFINITY, 1e300];
    for (made, text) in texts.into_iter().enumerate() {
        for layout in crate::layouts::ALL {
            let name = format!("{layout:?}-{made}");
            let line = format!("redisson_sc_recipe_queue:{}:{{{name}}}", layout.word());
            let notes = format!("redisson_sc_recipe_notes:{}:{{{name}}}", layout.word());
            for (number, arrival) in arrivals.into_iter().enumerate() {
                let _: () = control.zadd(&line, number, arrival).await.unwrap();
                let _: () = control.hset(&notes, number, text).await.unwrap();
            }
            let semaphore = layout.make(&client, &name, Shape::new(2));
            use_recipe(&semaphore).await;
            assert_no_panic(text);
            for (key, somebody) in [(&line, true), (&notes, true), (&notes, false)] {
                let _: () = control.del(&[&line, &notes]).await.unwrap();
                if somebody {
                    let _: () = control.zadd(&line, "somebody", 0).await.unwrap();
                }
                let _: () = control.del(key).await.unwrap();
                write_a_list(&mut control, key).await;
                // The waiters lose their order, and nothing else.
                let held = [(); 2].map(|()| semaphore.acquire());
                let held = futures::future::try_join_all(held).await.unwrap();
                let wait = Duration::from_millis(5);
                assert_eq!(semaphore.try_acquire_for(wait).await, Ok(None));
                for one in held {
                    semaphore.release(one.id()).await.unwrap();
                }
                use_recipe(&semaphore).await;
                assert_no_panic(text);
            }
            let _: () = control.del(&[&line, &notes]).await.unwrap();
            assert_eq!(
                semaphore.holders().await.unwrap(),
                [],
                "{layout:?}: {text:?}"
            );
        }
    }
}

/// Invalid hold counts, in the field of an owner or of another client: every call ends, and all is well when they have gone.
#[tokio::test]
async fn holders_of_a_lock_that_nobody_of_ours_has_written() {
    count_panics();
    let server = RedisServer::start().await;
    let control = server.connection().await;
    let client = connect(server.url()).await;
    let meets = async |doors: &[&dyn Lock], text: &str, fields: &[(&str, &str)]| {
        let mut control = control.clone();
        let token = "redisson_lock_token:{door}";
        let _: () = control.hset_multiple("door", fields).await.unwrap();
        let _: () = control.set(token, text).await.unwrap();
        let all = async {
            for door in doors {
                clear("door", door.try_lock().await);
                clear("door", door.try_lock_for(Duration::from_millis(5)).await);
                clear("door", door.hold_count().await);
                clear("door", door.is_locked().await);
                for _ in 0..2 {
                    let unlocked = door.unlock().await;
                    if !matches!(unlocked, Err(Error::NotHeld { .. })) {
                        clear("door", unlocked);
                    }
                }
            }
            for door in doors {
                clear("door", door.force_unlock().await);
            }
        };
        let ended = timeout(LIMIT, all).await;
        ended.unwrap_or_else(|_| panic!("{fields:?}: a call hangs"));
        assert_no_panic(&format!("{fields:?}"));
        let _: () = control.del(&["door", token]).await.unwrap();
        for door in doors.iter().rev() {
            assert!(door.try_lock().await.unwrap(), "{fields:?}");
        }
        for door in doors {
            door.unlock().await.unwrap();
        }
        assert!(!control.exists::<_, bool>("door").await.unwrap());
    };
    for text in [
        "",
        "x",
        "0",
        "-1",
        "1.5",
        "nan",
        "inf",
        "0x10",
        "1e300",
        "2147483648",
        "4000000000",
        "9223372036854775807",
    ] {
        let (plain, fenced) = (client.lock("door"), client.fenced_lock("door"));
        for door in [&plain as &dyn Lock, &fenced] {
            for field in [door.owner(), "other:1"] {
                meets(&[door], text, &[(field, text)]).await;
            }
        }
        let both = client.read_write_lock("door");
        let (read, write) = (both.read(), both.write());
        let own = [read.owner().to_owned(), format!("{}:write", read.owner())];
        for mode in ["read", "write"] {
            for field in [own[0].as_str(), own[1].as_str(), "other:1", "other:1:write"] {
                meets(&[&read, &write], text, &[("mode", mode), (field, text)]).await;
            }
        }
    }
}

/// The grant of the next waiter travels with the unlock, and only this grant needs the token.
#[tokio::test]
async fn a_token_that_is_none_does_not_keep_the_holder_from_unlocking() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let token = "redisson_lock_token:{door}";
    for list in [false, true] {
        let client = connect(server.url()).await;
        let holder = client.lock("door").guard().await.unwrap();
        let next = client.fenced_lock("door");
        let waits = tokio::spawn(async move { next.guard().await.map(drop) });
        until_subscribers(&mut control, "redisson_lock__channel:{door}", 1).await;
        if list {
            write_a_list(&mut control, token).await;
        } else {
            let _: () = control.set(token, "nonsense").await.unwrap();
        }
        assert_eq!(holder.unlock().await, Ok(()));
        let told = timeout(LIMIT, waits).await.expect("it is told");
        match told.unwrap().unwrap_err() {
            Error::WrongType { .. } if list => {}
            Error::Server { detail, .. } if !list => assert!(detail.contains("token"), "{detail}"),
            error => panic!("{error}"),
        }
        assert!(!client.lock("door").is_locked().await.unwrap());
        let _: () = control.del(token).await.unwrap();
        client.shutdown().await.unwrap();
    }
}

/// A lock is not taken if its token can't be known to rise, and the counter stays as it is.
#[tokio::test]
async fn a_counter_of_tokens_that_nobody_of_ours_has_written() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let door = client.fenced_lock("door");
    let counter = "redisson_lock_token:{door}";
    for text in [
        "-9223372036854775808",
        "-5",
        "-1",
        "-0",
        "007",
        "0x10",
        "1e3",
        "1.5",
        "nan",
        " 7",
        "9007199254740991",
        "9007199254740992",
        "9223372036854775806",
        "99999999999999999999",
    ] {
        let _: () = control.set(counter, text).await.unwrap();
        for told in [
            door.lock_and_get_token().await.map(Some),
            door.try_lock_and_get_token().await,
        ] {
            match told {
                Err(Error::Server { name, detail, .. }) => {
                    assert_eq!(name, "door");
                    assert!(detail.contains("token"), "{text:?}: {detail}");
                }
                told => panic!("{text:?}: {told:?}"),
            }
        }
        assert!(!door.is_locked().await.unwrap(), "{text:?}");
        let left: String = control.get(counter).await.unwrap();
        assert_eq!(left, text);
    }
    for (text, token) in [
        ("0", 1),
        ("41", 42),
        ("9007199254740990", 9_007_199_254_740_991),
    ] {
        let _: () = control.set(counter, text).await.unwrap();
        assert_eq!(door.try_lock_and_get_token().await, Ok(Some(token)));
        assert_eq!(door.token().await, Ok(Some(token)));
        door.unlock().await.unwrap();
    }
    let _: () = control.set(counter, "-5").await.unwrap();
    let told = door.token().await.unwrap_err();
    assert!(matches!(told, Error::Server { .. }), "{told}");
}

/// Starts a server that answers scripts and queries with anything. Returns its URL.
async fn answer_anything(seed: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut seeds = seed..;
        while let (Ok((stream, _)), Some(seed)) = (listener.accept().await, seeds.next()) {
            tokio::spawn(serve(stream, fastrand::Rng::with_seed(seed)));
        }
    });
    url
}

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, mut random: fastrand::Rng) {
    let mut stream = BufReader::new(stream);
    while let Some(command) = read_command(&mut stream).await {
        let answer = match &*command[0].to_ascii_uppercase() {
            "SUBSCRIBE" => command[1..]
                .iter()
                .map(|channel| {
                    format!(
                        "*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n",
                        channel.len()
                    )
                })
                .collect(),
            "CLIENT" | "PING" | "HELLO" | "SELECT" | "UNSUBSCRIBE" => "+OK\r\n".to_owned(),
            _ => anything(&mut random, 2),
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let count: usize = line.trim().strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let length: usize = line.trim().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    (!words.is_empty()).then_some(words)
}

/// A number as in an answer, or at the end of a range.
fn any_number(random: &mut fastrand::Rng) -> i64 {
    match random.u8(..8) {
        0 => random.i64(..),
        1 => i64::MAX,
        2 => i64::MIN,
        _ => random.i64(-4..5),
    }
}

fn any_word(random: &mut fastrand::Rng) -> String {
    let done = |random: &mut fastrand::Rng| {
        let words = random.usize(4..12);
        let numbers: Vec<_> = (0..words).map(|_| any_number(random).to_string()).collect();
        let own = ["", "a1", "g2 g3", "x", "1"][random.usize(..5)];
        format!("done {} | {own}", numbers.join(" "))
    };
    match random.u8(..10) {
        0 => done(random),
        1 => ["-", "missing", "stale", "1:2", "1,2", "x", ""][random.usize(..7)].to_owned(),
        _ => any_number(random).to_string(),
    }
}

fn anything(random: &mut fastrand::Rng, depth: u8) -> String {
    match random.u8(..12) {
        0 => "$-1\r\n".to_owned(),
        1 => "-ERR anything\r\n".to_owned(),
        2 => "+anything\r\n".to_owned(),
        3 => format!(":{}\r\n", any_number(random)),
        4..=6 if depth > 0 => {
            let length = random.usize(..6);
            let items: String = (0..length).map(|_| anything(random, depth - 1)).collect();
            format!("*{length}\r\n{items}")
        }
        4..=6 => format!(":{}\r\n", any_number(random)),
        // As many results as there may be steps.
        7..=9 => {
            let numbers: Vec<_> = (0..random.usize(3..6))
                .map(|_| any_number(random).to_string())
                .collect();
            let text = numbers.join(" ");
            format!("${}\r\n{text}\r\n", text.len())
        }
        _ => {
            let start = [
                "",
                "-1 ",
                "done ",
                "locked ",
                "units ",
                "refused ",
                "unreadable ",
            ][random.usize(..7)];
            let words: Vec<_> = (0..random.usize(..13)).map(|_| any_word(random)).collect();
            let text = format!("{start}{}", words.join(" "));
            format!("${}\r\n{text}\r\n", text.len())
        }
    }
}

/// Makes requests of all kinds, whatever their results are.
async fn use_everything(client: &Client) {
    let short = Duration::from_millis(5);
    let seats = client.semaphore("seats");
    let door = client.fenced_lock("door");
    let leased = door.with_lease(LIMIT);
    let string = client.string_lock("string");
    let recipes = crate::layouts::ALL.map(|layout| layout.make(client, "recipe", Shape::new(2)));
    let semaphores = async {
        drop(tokio::join!(
            seats.try_permit(1),
            seats.permit_for(2, short),
            seats.permit_for(1, short)
        ));
        drop(tokio::join!(
            seats.add_permits(1),
            seats.drain_permits(),
            seats.release(1)
        ));
        drop(tokio::join!(
            seats.try_set_permits(1),
            seats.release_if_exists(2),
            seats.available_permits()
        ));
        drop(tokio::join!(
            seats.expire(LIMIT),
            seats.remaining_ttl(),
            seats.object().expire_time(),
            seats.object().rename("other")
        ));
    };
    let locks = async {
        drop(tokio::join!(
            door.try_guard(),
            door.guard_for(short),
            leased.try_lock()
        ));
        drop(tokio::join!(
            door.is_locked(),
            door.hold_count(),
            door.remaining_ttl(),
            door.token()
        ));
        drop(tokio::join!(door.unlock(), door.force_unlock()));
        drop(tokio::join!(
            string.try_guard(),
            string.guard_for(short),
            string.hold_count()
        ));
        drop(tokio::join!(string.remaining_ttl(), string.force_unlock()));
    };
    let leased = async {
        for semaphore in &recipes {
            drop(tokio::join!(
                semaphore.try_permit(),
                semaphore.permit_for(short),
                semaphore.holders()
            ));
            drop(tokio::join!(
                semaphore.refresh("a"),
                semaphore.release("a"),
                semaphore.release_all()
            ));
        }
    };
    tokio::join!(semaphores, locks, leased);
}

#[tokio::test]
async fn a_server_that_answers_anything() {
    count_panics();
    for seed in 0..40 {
        let url = answer_anything(seed * 1000).await;
        let builder = builder(url).retry_window(Duration::from_millis(50));
        let client = builder.connect().await.unwrap();
        let all = timeout(LIMIT, use_everything(&client)).await;
        assert_no_panic(&format!("seed {seed}"));
        all.unwrap_or_else(|_| panic!("seed {seed}: a call does not end"));
        // Pending releases of guards may never be carried out here.
        drop(client.shutdown().await);
        assert_no_panic(&format!("seed {seed}, at its end"));
    }
}
