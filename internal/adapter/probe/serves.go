package probe

import (
	"context"

	"github.com/holdfast/holdfast/internal/model/state"
)

// servesPath is the path at which an API server reports whether it is ready and its
// etcd answers, for which etcd asks a quorum.
const servesPath = "/readyz"

// Serves asks an API server once whether it is ready and its etcd commits. address is
// HOST:PORT, ca the file with the CA that verifies it. The answer is false if the
// server says so or nobody listens, and unknown if it gives none in time.
func Serves(ctx context.Context, address, ca string) state.Fact[bool] {
	l := LocalAPI{CA: ca}
	if !l.trust() {
		return state.Fact[bool]{}
	}
	defer l.client.CloseIdleConnections()
	header, v := get(ctx, l.client, "https://"+address+servesPath)
	if v == bad && header == nil {
		return state.Fact[bool]{}
	}
	return state.Known(v == good)
}
