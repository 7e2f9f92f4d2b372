package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.util.List;

/**
 * A proxy between clients and brokers that reads Kafka's protocol, and delays, loses, repeats or alters single messages by rules. Its
 * argument is one JSON document (`Config`), a file with it, or `-` for the first line of standard input. It says on standard output where it listens, or what is wrong, and
 * ends with its standard input.
 */
public final class Proxy {
    private static final int REFUSED = 2;
    private static volatile Process running; // null: not yet

    private Proxy() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        try {
            Endpoint.prepare();
            Process process = new Process(Config.of(arguments[0]));
            Runtime.getRuntime().addShutdownHook(new Thread(process.journal::end)); // a signal, which leaves the time for it
            process.takeRules();
            running = process;
            Control control = new Control(process); // first: who is connected can already set rules
            process.listen();
            ObjectNode says = Codec.JSON.createObjectNode().put("control", control.address().toString());
            say(out, says.set("brokers", process.brokers()));
        } catch (RuleError error) {
            refuse(out, error.errors);
        } catch (IOException | RuntimeException error) {
            refuse(out, List.of(error.getMessage() == null ? error.toString() : error.getMessage()));
        }
        while (System.in.read() >= 0) {
            continue;
        }
        end(0);
    }

    private static void say(PrintStream out, ObjectNode line) {
        out.println(line);
        out.flush();
    }

    private static void refuse(PrintStream out, List<String> errors) {
        ArrayNode list = Codec.JSON.createArrayNode();
        errors.forEach(list::add);
        say(out, Codec.JSON.createObjectNode().set("errors", list));
        end(REFUSED);
    }

    /** Ends the process at once: every line of the record is in the kernel's hands, and the last one says so. */
    static void end(int code) {
        if (running != null) {
            running.journal.end();
        }
        Runtime.getRuntime().halt(code);
    }
}
