package release

import (
	"context"
	"fmt"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Programs builds a component's programs, or finds them in the cache, and
// returns the path of each. They are for this machine, belong to no image, and
// stay as long as builds use them.
func Programs(ctx context.Context, opts Options, c payload.Component) (map[string]string, error) {
	b, _, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	made, err := b.component(ctx, c)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, p := range c.Binaries {
		if _, err := made.file(p.Name); err != nil {
			return nil, fmt.Errorf("programs: %w", err)
		}
		out[p.Name] = made.binary(p.Name)
	}
	return out, nil
}
