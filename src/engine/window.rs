//! Many calls, of which so many are under way at a time: one after the other they would take long where the server is far
//! away, and all at once they would keep others waiting.

use std::future::Future;

use futures::stream::{FuturesUnordered, StreamExt};

/// So many calls.
const CALLS: usize = 8;
/// Or, where they are about little each, as each slot of a cluster needs one of its own, as many as come to so many objects.
const OBJECTS: usize = 800;

/// Carries out `calls`, each about so many objects and made when it begins; `ended` is told what each has come to.
pub(crate) async fn each<F: Future>(
    mut calls: impl Iterator<Item = (usize, F)>,
    mut ended: impl FnMut(F::Output),
) {
    let mut under_way = FuturesUnordered::new();
    let mut objects = 0;
    loop {
        while (under_way.len() < CALLS || objects < OBJECTS)
            && let Some((about, call)) = calls.next()
        {
            objects += about;
            under_way.push(async move { (about, call.await) });
        }
        let Some((about, outcome)) = under_way.next().await else {
            return;
        };
        objects -= about;
        ended(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How many of so many calls were under way at a time.
    async fn most(calls: usize, about: usize) -> usize {
        let (now, most, ended) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let call = |_| {
            let call = async {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
            };
            (about, call)
        };
        each((0..calls).map(call), |()| ended.set(ended.get() + 1)).await;
        assert_eq!(ended.get(), calls);
        most.get()
    }

    #[tokio::test]
    async fn few_large_calls_are_under_way_at_a_time_and_many_small_ones() {
        assert_eq!(most(0, 1).await, 0);
        assert_eq!(most(3, 1000).await, 3);
        assert_eq!(most(100, 250).await, CALLS);
        assert_eq!(most(3000, 1).await, OBJECTS);
    }
}
