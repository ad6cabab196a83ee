package apitest

// Writes counts the writes of a controller, and lets a test fail or follow each.
type Writes struct {
	// Count is the number of writes so far.
	Count int
	// Before and After are called around each write, with its number from 1 on. Their
	// errors are what the controller sees.
	Before, After func(n int) error
}

// Do plays one write.
func (w *Writes) Do(do func() error) error {
	w.Count++
	n := w.Count
	if w.Before != nil {
		if err := w.Before(n); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.After != nil {
		return w.After(n)
	}
	return nil
}
