//! The verbs of the traits as inherent methods, so that who has the type need not import the trait.

/// Gives a type that implements a trait of this crate inherent methods of the same names: such as answer `now`, and such as
/// are `awaited`.
macro_rules! inherent {
    (
        $trait:ident for $type:ty,
        now { $(fn $now:ident(&self) -> $answer:ty;)* }
        awaited {
            $($(#[$attribute:meta])* fn $verb:ident(&self $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)*
        }
    ) => {
        impl $type {
            $(
                #[doc = concat!("[`", stringify!($trait), "::", stringify!($now), "`](crate::", stringify!($trait), "::", stringify!($now), ").")]
                #[must_use]
                pub fn $now(&self) -> $answer {
                    $crate::api::$trait::$now(self)
                }
            )*

            $(
                #[doc = concat!("[`", stringify!($trait), "::", stringify!($verb), "`](crate::", stringify!($trait), "::", stringify!($verb), ").")]
                $(#[$attribute])*
                pub async fn $verb(&self $(, $arg: $arg_type)*) -> $crate::Result<$result> {
                    $crate::api::$trait::$verb(self $(, $arg)*).await
                }
            )*
        }
    };
}
pub(crate) use inherent;

/// The methods of [`LeasedSemaphore`](crate::LeasedSemaphore).
macro_rules! inherent_leased_semaphore {
    ($type:ty) => {
        $crate::api::inherent! {
            LeasedSemaphore for $type,
            now {
                fn name(&self) -> &str;
                fn limit(&self) -> Option<u32>;
                fn lease(&self) -> Option<std::time::Duration>;
            }
            awaited {
                fn acquire(&self) -> $crate::Held;
                fn try_acquire(&self) -> Option<$crate::Held>;
                fn try_acquire_for(&self, wait: std::time::Duration) -> Option<$crate::Held>;
                fn release(&self, id: &str) -> bool;
                fn refresh(&self, id: &str) -> bool;
                fn holders(&self) -> Vec<$crate::Holder>;
                fn release_all(&self) -> u64;
                fn permit(&self) -> $crate::LeasedPermit;
                fn permit_for(&self, wait: std::time::Duration) -> Option<$crate::LeasedPermit>;
                fn try_permit(&self) -> Option<$crate::LeasedPermit>;
            }
        }
    };
}
pub(crate) use inherent_leased_semaphore;

/// The methods of [`Lock`](crate::Lock).
macro_rules! inherent_lock {
    ($type:ty) => {
        $crate::api::inherent! {
            Lock for $type,
            now {
                fn name(&self) -> &str;
                fn owner(&self) -> &str;
                fn lease(&self) -> $crate::Lease;
            }
            awaited {
                fn lock(&self) -> ();
                fn try_lock(&self) -> bool;
                fn try_lock_for(&self, wait: std::time::Duration) -> bool;
                fn guard(&self) -> $crate::LockGuard;
                fn try_guard(&self) -> Option<$crate::LockGuard>;
                fn guard_for(&self, wait: std::time::Duration) -> Option<$crate::LockGuard>;
                fn unlock(&self) -> ();
                fn force_unlock(&self) -> bool;
                fn is_locked(&self) -> bool;
                fn is_held(&self) -> bool;
                fn hold_count(&self) -> u32;
                fn remaining_ttl(&self) -> $crate::RemainingTtl;
            }
        }
    };
}
pub(crate) use inherent_lock;
