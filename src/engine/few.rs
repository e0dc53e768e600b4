//! Mostly one: a list that takes no memory of its own for the first.

/// Some of a kind, in their order.
pub(crate) struct Few<T> {
    first: Option<T>,
    others: Vec<T>,
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        Few {
            first: items.next(),
            others: items.collect(),
        }
    }
}

impl<T> Few<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.others)
    }
}
