// Porcupine on the history of one table's log: a commit takes the next version, a read sees the newest.
//
// Reads {"base": …, "operations": […]} and exits with 0 if the history is linearizable, 1 if not, 2 if
// it cannot tell.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client   int    `json:"client"`
	Kind     string `json:"kind"`
	Version  int    `json:"version"`
	Called   int64  `json:"called"`
	Returned int64  `json:"returned"`
}

type history struct {
	Base       int         `json:"base"`
	Operations []operation `json:"operations"`
}

func main() {
	var given history
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	model := porcupine.Model{
		Init: func() any { return given.Base },
		Step: func(state, input, output any) (bool, any) {
			newest, version := state.(int), output.(int)
			if input.(string) == "commit" {
				return version == newest+1, version
			}
			return version == newest, newest
		},
	}
	operations := make([]porcupine.Operation, len(given.Operations))
	for i, o := range given.Operations {
		operations[i] = porcupine.Operation{
			ClientId: o.Client, Input: o.Kind, Output: o.Version, Call: o.Called, Return: o.Returned,
		}
	}
	switch porcupine.CheckOperationsTimeout(model, operations, 5*time.Minute) {
	case porcupine.Ok:
		os.Exit(0)
	case porcupine.Illegal:
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "no answer within five minutes")
		os.Exit(2)
	}
}
