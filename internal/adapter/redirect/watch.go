package redirect

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/nftwatch"
)

// Watch calls changed whenever somebody has touched the table, us included, and
// once at the start; a burst of changes may be one call. It returns with the
// context, or when it cannot go on; the caller then looks for itself and calls
// it again.
func (t Table) Watch(ctx context.Context, changed func()) error {
	return nftwatch.Table{Name: TableName, NetNS: t.NetNS}.Follow(ctx, changed, changed)
}
