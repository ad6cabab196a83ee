package keepalived

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/nftwatch"
)

// WatchFilter calls touched whenever somebody has changed the filter's table, us
// included, and where that may have been missed. It returns with the context, or
// when it cannot go on.
func WatchFilter(ctx context.Context, touched func()) error {
	return nftwatch.Table{Name: filterTable}.Follow(ctx, func() {}, touched)
}
