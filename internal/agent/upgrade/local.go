package upgrade

import (
	"context"
	"errors"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Unfetched is the Releases of a host on which nothing fetches releases: what lies
// there is unknown, so that no gate opens and no host goes anywhere.
type Unfetched struct{}

// Whole implements Releases.
func (Unfetched) Whole(context.Context) state.Fact[[]string] { return state.Fact[[]string]{} }

// errUnfetched says why nothing is known of a release.
var errUnfetched = errors.New("nothing on this host fetches releases")

// About implements Releases.
func (Unfetched) About(string) (gate.Release, error) { return gate.Release{}, errUnfetched }

// Fetching implements Releases.
func (Unfetched) Fetching() (how, failed string) { return "", "" }
