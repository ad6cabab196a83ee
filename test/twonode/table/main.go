// Command table prints the measurements of the two-node scenarios as Markdown.
//
//	go run ./test/twonode/table <_output/twonode/results.jsonl
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/holdfast/holdfast/test/twonode/evidence"
)

func main() { os.Exit(run(os.Stdin, os.Stdout, os.Stderr)) } //nolint:forbidigo // this is main

func run(in io.Reader, out, errs io.Writer) int {
	list, err := evidence.Read[evidence.Trial](in)
	if err == nil {
		_, err = io.WriteString(out, evidence.Table(list))
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "table:", err)
		return 1
	}
	return 0
}
