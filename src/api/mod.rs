//! The object-safe traits that the implementations share, what they all promise, and the guards.

mod holders;
mod latch;
mod leased;
mod lock;
mod name;
mod semaphore;
mod ttl;

pub use holders::PermitHolder;
pub(crate) use holders::encoded;
pub use latch::CountDownLatch;
pub use leased::{Held, Holder, LeasedPermit, LeasedSemaphore};
pub(crate) use lock::HoldId;
pub use lock::{Hold, Lock, LockGuard};
pub(crate) use name::{check_id, check_name, flaw_of_name, refuse, shortened};
pub(crate) use semaphore::OnRecord;
pub use semaphore::{MAX_PERMITS, Permit, Semaphore};
pub use ttl::RemainingTtl;
pub(crate) use ttl::{LONGEST_MILLIS, check_millis, whole_millis};

/// The traits are implemented in this crate alone: their hidden methods, of which the guards are made, may change.
pub trait Sealed {}

/// Writes a trait for a type by methods of the same names, those of `$by`: an inherent method goes before the trait's. The items
/// behind the two lists become a part of the trait as they are.
macro_rules! by_methods {
    (
        $trait:ident for $type:ty, |$this:ident| $by:expr;
        now { $($now:ident($($arg:ident: $of:ty),*) $(-> $answer:ty)?;)* }
        waits { $($waits:ident($($given:ident: $as:ty),*) -> $result:ty;)* }
        $($more:tt)*
    ) => {
        impl $crate::api::Sealed for $type {}

        #[async_trait::async_trait]
        impl $trait for $type {
            $(
                fn $now(&self $(, $arg: $of)*) $(-> $answer)? {
                    let $this = self;
                    $by.$now($($arg),*)
                }
            )*

            $(
                async fn $waits(&self $(, $given: $as)*) -> $result {
                    let $this = self;
                    $by.$waits($($given),*).await
                }
            )*

            $($more)*
        }
    };
}
pub(crate) use by_methods;
