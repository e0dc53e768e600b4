//! Mostly one: a list that takes no memory of its own for the first.

/// Some of a kind, in their order.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    others: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::up_to(0)
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Few::default();
        few.extend(items);
        few
    }
}

impl<T> Few<T> {
    /// None yet, with room for `most`.
    pub(crate) fn up_to(most: usize) -> Self {
        Few {
            first: None,
            others: Vec::with_capacity(most.saturating_sub(1)),
        }
    }

    pub(crate) fn push(&mut self, one: T) {
        match self.first {
            None => self.first = Some(one),
            Some(_) => self.others.push(one),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.others)
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|one| self.push(one));
    }
}
