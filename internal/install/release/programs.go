package release

import (
	"context"
	"fmt"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Programs makes a component's programs, or finds that they are made already,
// and returns where each lies. They are for this machine, in no image, and stay
// for as long as builds ask for them.
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
