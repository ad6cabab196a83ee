package bootloader

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
)

const (
	// holdVariable is the number of effects after which a run stands still.
	holdVariable = "HOLDFAST_HOLD_AFTER"
	// held is what a run says then: it waits for its power cut.
	held = "held: cut the power"
	// heldFor bounds that wait.
	heldFor = 10 * time.Minute
)

// hold does what `holdfast-agent configure` does, and stands still after some effects:
// files that are written or removed, and programs of the boot loader that have ended.
func hold(after string) int {
	left, err := strconv.Atoi(after)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx := context.Background()
	effect := func(err error) error {
		if left--; left == 0 && err == nil {
			fmt.Println(held)
			return host.Sleep(ctx, heldFor)
		}
		return err
	}
	w := hostconfig.NewWriter("/")
	write, remove, run := w.Files.WriteFile, w.Files.Remove, w.Files.Run
	w.Files.WriteFile = func(path string, data []byte, mode fs.FileMode) error { return effect(write(path, data, mode)) }
	w.Store.WriteFile = w.Files.WriteFile
	w.Files.Remove = func(path string) error { return effect(remove(path)) }
	w.Files.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
		out, err := run(ctx, c)
		return out, effect(err)
	}
	if _, err := w.Write(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("the run has fewer effects")
	return 1
}
