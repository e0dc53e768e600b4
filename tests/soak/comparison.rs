//! Placeholder.
pub(crate) async fn run() -> crate::Result<()> {
    Ok(())
}
