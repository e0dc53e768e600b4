//! One side carries out every operation of a semaphore, and the other side looks.

use std::time::Duration;

use super::operation::{Op, Outcome, Side};

/// A side that acts and a side that looks, on one semaphore.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    pub by: Side<'a>,
    pub seen_by: Side<'a>,
    pub name: &'a str,
}

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

    /// Copies and renames, with newer versions of Redisson: the other side finds the semaphore under the new name.
    pub async fn names(&self) {
        let [copy, renamed] = ["copy", "renamed"].map(|end| format!("{}-{end}", self.name));
        self.does(Op::TrySet(3), YES).await;
        self.does(Op::Copy(copy.clone()), YES).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(3)).await;
        self.does(Op::Release(1), DONE).await;
        self.does(Op::CopyAndReplace(copy.clone()), YES).await;
        self.sees_at(&copy, Op::Available, Outcome::Number(4)).await;
        self.does(Op::Rename(renamed.clone()), DONE).await;
        self.sees(Op::Exists, NO).await;
        self.sees_at(&renamed, Op::Available, Outcome::Number(4))
            .await;
        for name in [&copy, &renamed] {
            self.sees_at(name, Op::Unlink, YES).await;
        }
    }

    pub async fn rename_nx(&self) {
        let [taken, new] = ["taken", "new"].map(|end| format!("{}-{end}", self.name));
        self.does(Op::TrySet(5), YES).await;
        self.sees_at(&taken, Op::TrySet(9), YES).await;
        self.does(Op::RenameNx(taken.clone()), NO).await;
        self.sees(Op::Available, Outcome::Number(5)).await;
        self.does(Op::RenameNx(new.clone()), YES).await;
        self.sees_at(&new, Op::Available, Outcome::Number(5)).await;
        for name in [&taken, &new] {
            self.sees_at(name, Op::Delete, YES).await;
        }
    }
}
