//! The model of a server, believed because a real one beside it says the same.

mod sim;
mod support;

use sim::differential::explore;
use sim::differential::world::Real;

/// `SIM_SEED=<number>` repeats a run.
#[tokio::test]
async fn model_and_server_say_and_store_the_same() {
    let seed = std::env::var("SIM_SEED").map_or_else(
        |_| fastrand::u64(..),
        |text| text.parse().expect("a number"),
    );
    println!("SIM_SEED={seed}");
    let mut real = Real::start().await;
    explore(&mut real, seed, 60, 120);
}
