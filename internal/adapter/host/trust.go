package host

import (
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TrustFile returns the path, below root, of the file with the authorities that the site
// adds to those of the distribution; empty if it adds none.
func TrustFile(root string) string {
	path := filepath.Join(root, state.TrustPath)
	if data, err := os.ReadFile(path); err != nil || !state.HasAuthorities(data) {
		return ""
	}
	return path
}
