//! How many entries a client keeps, of each kind: none of them may grow with what has been. The simulator asks.

use super::Core;

impl Core {
    /// How many there are of each kind.
    pub(crate) fn entries(&self) -> Vec<(&'static str, usize)> {
        let (unused, doubted) = self.records.count();
        vec![
            ("objects", self.objects.count()),
            ("busy", self.busy()),
            ("channels", self.wakeups.count()),
            ("holds", self.holds.entries()),
            ("records", unused),
            ("doubted", doubted),
            ("links", self.connection.count()),
        ]
    }
}
