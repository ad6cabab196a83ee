package upgrade

import (
	"context"
	"errors"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// unfetched is the Releases of a host of which nobody knows what lies there.
type unfetched struct{}

func (unfetched) Whole(context.Context) state.Fact[[]string] { return state.Fact[[]string]{} }

var errNotFetched = errors.New("nothing on this host fetches releases")

func (unfetched) About(string) (gate.Release, error) { return gate.Release{}, errNotFetched }
func (unfetched) Placed(string) bool                 { return true }
func (unfetched) Fetching() (how, failed string)     { return "", "" }
