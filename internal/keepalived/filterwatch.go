package keepalived

import (
	"context"

	"github.com/holdfast/holdfast/internal/nftwatch"
)

// WatchFilter calls removed whenever somebody has taken the filter's table or a
// rule of it away, and where that may have been missed. It returns with the
// context, or when it cannot go on.
func WatchFilter(ctx context.Context, removed func()) error {
	return nftwatch.Table{Name: filterTable, Losses: true}.Follow(ctx, func() {}, removed)
}
