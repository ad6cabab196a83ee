package keepalived

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/nftwatch"
)

// WatchFilter calls touched after every change of the filter's table, including
// our own, and whenever a change may have been missed. It returns with the
// context, or when it cannot go on.
func WatchFilter(ctx context.Context, touched func()) error {
	return nftwatch.Table{Name: filterTable}.Follow(ctx, func() {}, touched)
}
