//! One side does everything that can be done to a semaphore, the other one looks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redisson_semaphore::ExpireCondition::{Greater, Less, NotSet, Set};

use super::operation::{Op, Outcome, Side, epoch_millis};

/// A side that acts and a side that looks, on one semaphore.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    pub by: Side<'a>,
    pub seen_by: Side<'a>,
    pub name: &'a str,
}

const MISSING: Outcome = Outcome::Number(-2);
const PERSISTENT: Outcome = Outcome::Number(-1);
const YES: Outcome = Outcome::Flag(true);
const NO: Outcome = Outcome::Flag(false);
const DONE: Outcome = Outcome::Nothing;

impl Course<'_> {
    fn what(&self, name: &str, op: &Op) -> String {
        let (by, seen_by) = (self.by.name(), self.seen_by.name());
        format!("{by} does {op:?} on {name:?}, {seen_by} looks")
    }

    /// The acting side does `op`, which answers `expected`.
    async fn does(&self, op: Op, expected: Outcome) {
        let outcome = self.by.run(self.name, &op).await;
        assert_eq!(outcome, expected, "{}", self.what(self.name, &op));
    }

    async fn fails(&self, op: Op) {
        let outcome = self.by.run(self.name, &op).await;
        let failed = matches!(outcome, Outcome::Failed(_));
        assert!(failed, "{}: {outcome:?}", self.what(self.name, &op));
    }

    /// The other side looks at `name`.
    async fn sees_at(&self, name: &str, op: Op, expected: Outcome) {
        let outcome = self.seen_by.run(name, &op).await;
        assert_eq!(outcome, expected, "{}", self.what(name, &op));
    }

    async fn sees(&self, op: Op, expected: Outcome) {
        self.sees_at(self.name, op, expected).await;
    }

    /// The acting side does `op`, and then the other one sees so many free permits.
    async fn leaves(&self, op: Op, expected: Outcome, available: i64) {
        self.does(op, expected).await;
        self.sees(Op::Available, Outcome::Number(available)).await;
    }

    /// Set, acquire, release, add, drain: what every version of Redisson has.
    pub async fn permits(&self) {
        self.sees(Op::Exists, NO).await;
        self.leaves(Op::TryAcquire(1), NO, 0).await;
        self.leaves(Op::Drain, Outcome::Number(0), 0).await;
        self.sees(Op::Exists, NO).await;

        self.leaves(Op::TrySet(5), YES, 5).await;
        self.sees(Op::Exists, YES).await;
        self.leaves(Op::TrySet(7), NO, 5).await;
        self.leaves(Op::TryAcquire(6), NO, 5).await;
        self.leaves(Op::TryAcquire(2), YES, 3).await;
        self.leaves(Op::Acquire(1), DONE, 2).await;
        self.leaves(Op::TryAcquireFor(3, Duration::from_millis(30)), NO, 2)
            .await;
        self.leaves(Op::TryAcquireFor(2, Duration::from_secs(20)), YES, 0)
            .await;
        self.sees(Op::TryAcquire(1), NO).await;

        self.leaves(Op::Release(3), DONE, 3).await;
        self.sees(Op::TryAcquire(3), YES).await;
        self.leaves(Op::Add(9), DONE, 9).await;
        self.leaves(Op::Add(-12), DONE, -3).await;
        self.sees(Op::TryAcquire(1), NO).await;
        self.leaves(Op::Release(2), DONE, -1).await;
        self.leaves(Op::Drain, Outcome::Number(-1), 0).await;
        self.leaves(Op::Release(6), DONE, 6).await;
        self.sees(Op::Drain, Outcome::Number(6)).await;
        self.does(Op::Available, Outcome::Number(0)).await;

        for (op, outcome) in [
            (Op::Acquire(0), DONE),
            (Op::TryAcquire(0), YES),
            (Op::TryAcquireFor(0, Duration::from_secs(20)), YES),
            (Op::Release(0), DONE),
        ] {
            self.leaves(op, outcome, 0).await;
        }

        self.does(Op::Delete, YES).await;
        self.sees(Op::Exists, NO).await;
        self.leaves(Op::Release(2), DONE, 2).await;
        self.does(Op::Delete, YES).await;
        self.leaves(Op::Add(-4), DONE, -4).await;
        self.sees(Op::Delete, YES).await;
        self.leaves(Op::TrySet(0), YES, 0).await;
        self.sees(Op::Exists, YES).await;
        self.does(Op::Delete, YES).await;
    }

    /// What came with 3.29 and 4.0.
    pub async fn newer_permits(&self) {
        self.leaves(Op::ReleaseIfExists(2), NO, 0).await;
        self.sees(Op::Exists, NO).await;
        self.leaves(Op::TrySet(1), YES, 1).await;
        self.leaves(Op::ReleaseIfExists(2), YES, 3).await;
        self.leaves(Op::ReleaseIfExists(0), NO, 3).await;
        self.does(Op::Delete, YES).await;

        self.leaves(Op::TrySetFor(4, Duration::from_secs(100)), YES, 4)
            .await;
        self.sees_ttl(Duration::from_secs(100)).await;
        self.leaves(Op::TrySetFor(5, Duration::from_secs(900)), NO, 4)
            .await;
        self.sees_ttl(Duration::from_secs(100)).await;
        self.leaves(Op::Release(1), DONE, 5).await;
        self.leaves(Op::TryAcquire(3), YES, 2).await;
        self.sees_ttl(Duration::from_secs(100)).await;
        self.does(Op::Delete, YES).await;
    }

    /// The other side sees `ttl`, and both see the same instant.
    async fn sees_ttl(&self, ttl: Duration) {
        let seen = self
            .seen_by
            .run(self.name, &Op::RemainingTtl)
            .await
            .number();
        let left = ttl - Duration::from_millis(seen.try_into().expect("a time to live"));
        assert!(
            left < Duration::from_secs(20),
            "{seen} ms of {ttl:?}: {}",
            self.name
        );
        let (one, two) = (
            self.by.run(self.name, &Op::ExpireTime).await,
            self.seen_by.run(self.name, &Op::ExpireTime).await,
        );
        assert_eq!(one, two, "{}", self.what(self.name, &Op::ExpireTime));
        assert!(one.number() > epoch_millis(SystemTime::now()));
    }

    pub async fn expiry(&self) {
        let seconds = Duration::from_secs;
        for op in [
            Op::Expire(seconds(60), None),
            Op::Expire(seconds(60), Some(NotSet)),
            Op::ExpireAt(SystemTime::now() + seconds(60), None),
            Op::ClearExpire,
        ] {
            self.does(op, NO).await;
        }
        self.does(Op::RemainingTtl, MISSING).await;
        self.does(Op::ExpireTime, MISSING).await;

        self.does(Op::TrySet(3), YES).await;
        self.does(Op::RemainingTtl, PERSISTENT).await;
        self.does(Op::ExpireTime, PERSISTENT).await;
        self.does(Op::ClearExpire, NO).await;
        for (ttl, condition, outcome, left) in [
            (60, Some(Set), NO, None),
            // No expiry counts as the latest.
            (60, Some(Greater), NO, None),
            (60, Some(Less), YES, Some(60)),
            (90, Some(NotSet), NO, Some(60)),
            (90, Some(Less), NO, Some(60)),
            (90, Some(Greater), YES, Some(90)),
            (30, Some(Greater), NO, Some(90)),
            (30, Some(Set), YES, Some(30)),
            (120, None, YES, Some(120)),
        ] {
            self.does(Op::Expire(seconds(ttl), condition), outcome)
                .await;
            match left {
                Some(left) => self.sees_ttl(seconds(left)).await,
                None => self.sees(Op::RemainingTtl, PERSISTENT).await,
            }
        }
        self.does(Op::ClearExpire, YES).await;
        self.sees(Op::RemainingTtl, PERSISTENT).await;
        self.does(Op::Expire(seconds(60), Some(NotSet)), YES).await;
        self.sees_ttl(seconds(60)).await;

        // A whole number of milliseconds, so that both can say it.
        let now = epoch_millis(SystemTime::now());
        let hour = |hours: i64| now + hours * 3_600_000;
        let at = |millis: i64| {
            UNIX_EPOCH + Duration::from_millis(millis.try_into().expect("after 1970"))
        };
        for (time, condition, outcome, end) in [
            (2, None, YES, 2),
            (3, Some(NotSet), NO, 2),
            (1, Some(Greater), NO, 2),
            (4, Some(Greater), YES, 4),
            (5, Some(Less), NO, 4),
            (3, Some(Less), YES, 3),
            (6, Some(Set), YES, 6),
        ] {
            self.does(Op::ExpireAt(at(hour(time)), condition), outcome)
                .await;
            self.sees(Op::ExpireTime, Outcome::Number(hour(end))).await;
        }
        self.sees(Op::Available, Outcome::Number(3)).await;
        self.does(Op::ExpireAt(at(hour(-1)), None), YES).await;
        self.sees(Op::Exists, NO).await;
    }

    pub async fn names(&self) {
        let name = self.name;
        let (copy, renamed) = (format!("{name}-copy"), format!("{name}-renamed"));
        self.does(Op::Touch, NO).await;
        self.does(Op::Unlink, NO).await;
        self.does(Op::Delete, NO).await;
        self.does(Op::Size, Outcome::Number(0)).await;
        self.does(Op::Copy(copy.clone()), NO).await;
        self.does(Op::CopyAndReplace(copy.clone()), NO).await;
        self.fails(Op::Rename(renamed.clone())).await;

        self.does(Op::TrySetFor(3, Duration::from_secs(100)), YES)
            .await;
        self.sees(Op::Touch, YES).await;
        self.does(Op::Touch, YES).await;
        let size = self.by.run(name, &Op::Size).await;
        assert!(size.number() > 0, "{}", self.what(name, &Op::Size));
        self.sees(Op::Size, size).await;

        self.does(Op::Copy(copy.clone()), YES).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(3)).await;
        let copied = Course {
            name: &copy,
            ..*self
        };
        copied.sees_ttl(Duration::from_secs(100)).await;
        self.does(Op::Release(1), DONE).await;
        self.does(Op::Copy(copy.clone()), NO).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(3)).await;
        self.does(Op::CopyAndReplace(copy.clone()), YES).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(4)).await;

        self.does(Op::Rename(renamed.clone()), DONE).await;
        self.sees(Op::Exists, NO).await;
        self.sees_at(&renamed, Op::Available, Outcome::Number(4))
            .await;
        self.does(Op::TrySet(9), YES).await;
        self.does(Op::Rename(copy.clone()), DONE).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(9)).await;
        self.sees_at(&copy, Op::RemainingTtl, PERSISTENT).await;

        self.sees_at(&renamed, Op::Unlink, YES).await;
        self.sees_at(&renamed, Op::Unlink, NO).await;
        self.does(Op::TrySet(1), YES).await;
        self.does(Op::Unlink, YES).await;
        self.sees(Op::Exists, NO).await;
        self.sees_at(&copy, Op::Delete, YES).await;
        self.sees_at(&copy, Op::Delete, NO).await;
    }

    pub async fn rename_nx(&self) {
        let (taken, new) = (format!("{}-taken", self.name), format!("{}-new", self.name));
        self.fails(Op::RenameNx(new.clone())).await;
        self.does(Op::TrySet(5), YES).await;
        self.sees_at(&taken, Op::TrySet(9), YES).await;
        self.does(Op::RenameNx(taken.clone()), NO).await;
        self.sees_at(&taken, Op::Available, Outcome::Number(9))
            .await;
        self.sees(Op::Available, Outcome::Number(5)).await;
        self.does(Op::RenameNx(new.clone()), YES).await;
        self.sees(Op::Exists, NO).await;
        self.sees_at(&new, Op::Available, Outcome::Number(5)).await;
        for name in [&taken, &new] {
            self.sees_at(name, Op::Delete, YES).await;
        }
    }
}
