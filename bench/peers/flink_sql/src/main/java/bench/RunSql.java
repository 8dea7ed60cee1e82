package bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs the statements of SQL files as one job in this process, as Flink's SQL client does against a cluster.
 *
 * <p>{@code RunSql TIMES NAME=VALUE... -- FILE...}: the settings are Flink's. A statement ends with a semicolon at the end
 * of a line. INSERT statements become one statement set. The job runs TIMES times, and the JVM is warm after the first.
 * Each run prints its seconds.
 */
public final class RunSql {
  private RunSql() {}

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    int at = 1;
    for (; !arguments[at].equals("--"); at++) {
      int equals = arguments[at].indexOf('=');
      settings.setString(arguments[at].substring(0, equals), arguments[at].substring(equals + 1));
    }
    List<String> statements = new ArrayList<>();
    for (at++; at < arguments.length; at++) {
      for (String each : Files.readString(Path.of(arguments[at])).split(";\\s*\\R")) {
        if (!each.isBlank()) {
          statements.add(each.strip());
        }
      }
    }
    for (int run = 0; run < Integer.parseInt(arguments[0]); run++) {
      long began = System.nanoTime();
      execute(settings, statements);
      System.out.printf(Locale.ROOT, "seconds %.3f%n", (System.nanoTime() - began) / 1e9);
    }
    System.exit(0); // threads of the local cluster may still be up
  }

  private static void execute(Configuration settings, List<String> statements) throws Exception {
    TableEnvironment tables =
        TableEnvironment.create(EnvironmentSettings.newInstance().withConfiguration(settings).build());
    StatementSet inserts = tables.createStatementSet();
    for (String each : statements) {
      if (each.startsWith("INSERT")) {
        inserts.addInsertSql(each);
      } else {
        tables.executeSql(each);
      }
    }
    if (System.getenv("EXPLAIN") != null) {
      System.out.println(inserts.explain());
    }
    inserts.execute().await();
  }
}
