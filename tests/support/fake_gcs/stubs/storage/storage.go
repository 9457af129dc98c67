// Package storage has the names of Google's client that fake-gcs-server uses.
package storage

import (
	"context"
	"errors"
	"time"
)

type (
	ACLEntity  string
	ACLRole    string
	Projection int
	Client     struct{}
)

const (
	ProjectionDefault Projection = iota
	ProjectionFull
	ProjectionNoACL
)

type ProjectTeam struct {
	ProjectNumber, Team string
}

type ACLRule struct {
	Entity                  ACLEntity
	EntityID, Domain, Email string
	Role                    ACLRole
	ProjectTeam             *ProjectTeam
}

type ObjectRetention struct {
	Mode        string
	RetainUntil time.Time
}

func NewClient(context.Context, ...any) (*Client, error) {
	return nil, errors.New("the server of the tests has no client")
}
