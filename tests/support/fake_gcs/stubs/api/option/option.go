// Package option has the names of Google's library that fake-gcs-server uses.
package option

func WithHTTPClient(client any) any { return client }

func WithCredentials(credentials any) any { return credentials }
