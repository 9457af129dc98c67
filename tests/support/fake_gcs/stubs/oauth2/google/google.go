// Package google has the one name of Google's library that fake-gcs-server uses.
package google

type Credentials struct{}
