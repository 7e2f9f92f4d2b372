package fencepost.proxy;

import java.util.List;

/** A rule that cannot be: each error names the key and what to do. */
final class RuleError extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;
    final transient List<String> errors;

    RuleError(List<String> errors) {
        super(String.join("; ", errors));
        this.errors = errors;
    }
}
