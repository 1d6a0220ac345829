//! How does the service speak HTTP?
