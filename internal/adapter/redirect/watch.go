package redirect

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/nftwatch"
)

// Watch calls changed after every change of the table, including our own, and
// once at the start; one call may stand for a burst of changes. It returns with
// the context, or when it cannot go on; the caller then reads the table itself
// and calls Watch again.
func (t Table) Watch(ctx context.Context, changed func()) error {
	return nftwatch.Table{Name: TableName, NetNS: t.NetNS}.Follow(ctx, changed, changed)
}
