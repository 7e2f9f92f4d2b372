// The published crates have no program of their own, and their storage is chosen where they are depended upon.
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tansu_cli::Cli::main().await?;
    Ok(())
}
